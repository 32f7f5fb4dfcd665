// Tests the keys in responses: fresh keys of chunks, and invalidated keys of requests.
#include "core/proto/test_client_session.hpp"

namespace rtrs::client_keys_test {
namespace {

class ClientKeysTest : public ClientSessionFixture {};

TEST_F(ClientKeysTest, ClaimedButMissingInvalidationClosesThePath) {  // tests requirement L23
  flags = 0;
  open(1);
  const std::uint16_t permit = session.next_permit();
  feed(Submitted{now, permit, Direction::read, false, true, 0, 4096, 32});
  const std::uint32_t claim = wire::encode_io_rsp(wire::ImmType::io_rsp_w_inv, permit, 0);
  feed(ImmReceived{now, key(0, 1), claim});
  EXPECT_EQ(session.path(0).reason(), Reason::protocol_violation);
}

TEST_F(ClientKeysTest, InvalidatedReadCompletes) {
  flags = 0;
  open(1);
  const std::uint16_t permit = session.next_permit();
  feed(Submitted{now, permit, Direction::read, false, true, 0, 4096, 32});
  feed(KeyInvalidated{now, key(0, 1), permit});
  feed(ImmReceived{now, key(0, 1), wire::encode_io_rsp(wire::ImmType::io_rsp_w_inv, permit, 0)});
  EXPECT_EQ(only<Complete>().result, Errc::ok);
}

TEST_F(ClientKeysTest, FreshKeyIsStoredBeforeThePermitIsFree) {
  flags = wire::kConnRspNewRkey;
  open(1);
  const std::uint16_t permit = submit();
  const std::uint32_t imm = wire::encode_io_rsp(wire::ImmType::io_rsp, permit, 0);
  feed(KeyedResponseReceived{now, key(0, 1), imm, 0x77, permit});
  bool stored = false;
  for (const ClientAction& action : actions) {
    if (std::holds_alternative<StoreKey>(action)) stored = true;
    if (std::holds_alternative<Complete>(action)) {
      EXPECT_TRUE(stored);
    }
  }
  EXPECT_EQ(only<StoreKey>().rkey, 0x77U);
}

TEST_F(ClientKeysTest, ReadResponseMayKeepTheKeyIfAgreed) {
  struct Case {
    std::uint32_t flags;
    Direction direction;
    wire::ImmType type;
    bool taken;
  };
  const std::uint32_t joins = wire::kConnRspNewRkey | wire::kConnRspDataWithAnswer;
  const Case cases[] = {
      {joins, Direction::read, wire::ImmType::io_rsp, true},
      {joins, Direction::read, wire::ImmType::io_rsp_w_inv, false},
      {joins, Direction::write, wire::ImmType::io_rsp, false},
      {wire::kConnRspNewRkey, Direction::read, wire::ImmType::io_rsp, false},
  };
  for (const Case& one : cases) {
    session = ClientSession(small_config());
    flags = one.flags;
    open(1);
    const std::uint16_t permit = session.next_permit();
    feed(Submitted{now, permit, one.direction, false, true, 0, 4096, 32});
    if (one.type == wire::ImmType::io_rsp_w_inv) feed(KeyInvalidated{now, key(0, 1), permit});
    feed(ImmReceived{now, key(0, 1), wire::encode_io_rsp(one.type, permit, 0)});
    EXPECT_TRUE(asked<StoreKey>().empty());
    EXPECT_EQ(asked<Complete>().size(), one.taken ? 1U : 0U);
    EXPECT_EQ(session.path(0).reason(), one.taken ? Reason::none : Reason::protocol_violation);
  }
}

TEST_F(ClientKeysTest, KeyForAnotherBufferClosesThePath) {
  flags = wire::kConnRspNewRkey;
  open(1);
  const std::uint16_t permit = submit();
  const std::uint32_t imm = wire::encode_io_rsp(wire::ImmType::io_rsp, permit, 0);
  feed(KeyedResponseReceived{now, key(0, 1), imm, 0x77, static_cast<std::uint16_t>(permit + 1)});
  EXPECT_EQ(session.path(0).reason(), Reason::protocol_violation);
  EXPECT_TRUE(asked<StoreKey>().empty());
}

}  // namespace
}  // namespace rtrs::client_keys_test
