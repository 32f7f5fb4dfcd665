// Memory registration and remote invalidation of windows, for a fabric that uses several adapters.
#include <string>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::memory_test {
namespace {

using Kind = SeenEvent::Kind;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Both ends use the same two adapters.
class TwoAdapters : public TwoEnds {
 protected:
  static constexpr ConKey kNear2{0, 0, 3}, kFar2{0, 0, 4};

  void open_both() {
    open({mock_hca::mlx5(), second()});
    ASSERT_EQ(server.fabric->listen({.source = {}, .destination = {}, .port = 0}), Errc::ok);
    connect_both_ends("192.0.2.1");
    connect_both_ends("192.0.2.2", kNear2, kFar2);
  }
  static mock_hca::Profile second() {
    mock_hca::Profile one = mock_hca::mlx5();
    one.name = "mlx5_1";
    return one;
  }
  static std::uint64_t bytes_at(std::size_t adapter) { return mock_hca::held(adapter).bytes; }
  // Writes 4096 bytes with this key over this connection; true if the server gets the immediate.
  bool writes(ConKey near, ConKey far, const Region& from, const RemoteKey& to) {
    WorkRequest work;
    work.key = near;
    work.op = WorkRequest::Op::write_imm;
    work.rkey = server.fabric->rkey_of(far, to);
    work.remote_addr = to.remote_addr;
    work.parts[0] = {from.id, 0, 4096};
    work.part_count = 1;
    return client.fabric->post(std::span(&work, 1)) == 1 && heard(server, Kind::imm_received, far);
  }
};

TEST_F(TwoAdapters, MemoryIsRegisteredOnlyWithAdaptersThatUseIt) {
  open_both();
  const std::uint64_t before = bytes_at(1);
  const auto memory = server.fabric->allocate(kMiB);
  const auto source = client.fabric->allocate(4096);
  ASSERT_TRUE(memory && source);
  const auto key = server.fabric->make_key(memory->id, 0, kMiB);
  ASSERT_TRUE(key);
  EXPECT_TRUE(writes(kNear, kFar, *source, *key));
  EXPECT_GE(bytes_at(0), kMiB);
  EXPECT_EQ(bytes_at(1), before);
  EXPECT_TRUE(writes(kNear2, kFar2, *source, *key)) << "registered when another connection needs it";
  EXPECT_GE(bytes_at(1), before + kMiB);
}

TEST_F(TwoAdapters, NewConnectionRegistersNoExistingMemory) {
  open({mock_hca::mlx5(), second()});
  ASSERT_EQ(server.fabric->listen({.source = {}, .destination = {}, .port = 0}), Errc::ok);
  connect_both_ends("192.0.2.1");
  const auto memory = server.fabric->allocate(kMiB);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(server.fabric->make_key(memory->id, 0, kMiB));
  connect_both_ends("192.0.2.2", kNear2, kFar2);
  EXPECT_LT(bytes_at(1), kMiB);
  EXPECT_TRUE(carries(kNear2, kFar2));
}

TEST_F(TwoAdapters, ResponseCanUseMemoryNewToItsAdapter) {
  open_both();
  const auto memory = server.fabric->allocate(4096);
  const auto target = client.fabric->allocate(4096);
  ASSERT_TRUE(memory && target);
  const auto key = client.fabric->make_key(target->id, 0, 4096);
  ASSERT_TRUE(key);
  WorkRequest work;
  work.key = kFar2;
  work.op = WorkRequest::Op::write_imm;
  work.rkey = client.fabric->rkey_of(kNear2, *key);
  work.remote_addr = key->remote_addr;
  work.parts[0] = {memory->id, 0, 4096};
  work.part_count = 1;
  memory->bytes[4095] = std::byte{9};
  EXPECT_EQ(server.fabric->post(std::span(&work, 1)), 1U);
  EXPECT_TRUE(heard(client, Kind::imm_received, kNear2));
  EXPECT_EQ(target->bytes[4095], std::byte{9});
}

TEST_F(TwoAdapters, FailedKeyEndsOnlyTheConnectionThatNeedsIt) {
  open_both();
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(key);
  mock_hca::fail_creations(0, 1);
  EXPECT_EQ(server.fabric->rkey_of(kFar2, *key), 0U);
  EXPECT_EQ(take(server, Kind::connection_lost, kFar2).reason, Reason::no_resources);
  EXPECT_NE(server.fabric->rkey_of(kFar, *key), 0U);
  EXPECT_TRUE(carries());
}

TEST_F(TwoAdapters, FailedRegistrationOfASourceIsReportedAsNoResources) {
  open_both();
  const auto memory = client.fabric->allocate(4096);
  const auto target = server.fabric->allocate(4096);
  ASSERT_TRUE(memory && target);
  const auto key = server.fabric->make_key(target->id, 0, 4096);
  ASSERT_TRUE(key);
  const std::uint32_t rkey = server.fabric->rkey_of(kFar2, *key);
  WorkRequest work;
  work.key = kNear2;
  work.op = WorkRequest::Op::write_imm;
  work.rkey = rkey;
  work.remote_addr = key->remote_addr;
  work.parts[0] = {memory->id, 0, 4096};
  work.part_count = 1;
  mock_hca::fail_creations(0, 1);
  client.fabric->post(std::span(&work, 1));
  ASSERT_TRUE(mock_hca::creation_failed());
  EXPECT_EQ(take(client, Kind::connection_lost, kNear2).reason, Reason::no_resources);
  EXPECT_TRUE(carries());
}

// Two adapters may use the same rkey for different windows.
TEST_F(TwoAdapters, InvalidatedKeyBelongsToTheAdapterOfTheConnection) {
  open_both();
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto make = [&](ConKey near) { return *client.fabric->make_request_key(near, memory->id, 0, 4096); };
  RemoteKey first = make(kNear), second = make(kNear2);
  for (unsigned i = 0; i < 100 && first.rkey != second.rkey; ++i)
    (first.rkey < second.rkey ? first = make(kNear) : second = make(kNear2));
  ASSERT_EQ(first.rkey, second.rkey);
  poll(client);
  WorkRequest invalidation;
  invalidation.key = kFar;
  invalidation.op = WorkRequest::Op::send_inv;
  invalidation.rkey = first.rkey;
  client.fabric->post_receive(kNear, 1, 0);
  ASSERT_EQ(server.fabric->post(std::span(&invalidation, 1)), 1U);
  take(client, Kind::key_invalidated, kNear);
  client.fabric->release_key(first.id);
  client.fabric->release_key(second.id);
  EXPECT_EQ(make(kNear).rkey >> 8, first.rkey >> 8) << "a free window is reused";
  EXPECT_NE(make(kNear2).rkey >> 8, second.rkey >> 8) << "a bound window is not reused";
}

}  // namespace
}  // namespace rtrs::conformance::memory_test
