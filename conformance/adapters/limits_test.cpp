// Queue pair limits of an adapter, and connections that request more.
#include <string>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::limits_test {
namespace {

using Kind = SeenEvent::Kind;

mock_hca::Profile small_queues(std::uint32_t depth) {
  mock_hca::Profile one = mock_hca::mlx5();
  one.send_queue_bytes = 0;
  one.max_qp_wr = depth;
  return one;
}
mock_hca::Profile little_inline(std::uint32_t bytes) {
  mock_hca::Profile one = mock_hca::bnxt_re();
  one.max_inline = bytes;
  return one;
}

class LimitsOf : public TwoEndsBothWays {
 protected:
  // Connects both ends with these parameters.
  void connect_with(const ConnectionParams& wanted, unsigned receives = 8) {
    listen(kAddress);
    client.fabric->connect(
        kNear, {.source = {}, .destination = kAddress, .port = server.fabric->listening_port()}, wanted, {});
    ASSERT_TRUE(until([&] { return server.side->count(Kind::connect_requested) != 0; }));
    SeenEvent request;
    ASSERT_TRUE(server.side->take(Kind::connect_requested, request));
    server.fabric->accept(request.request, kFar, wanted, {});
    server.fabric->post_receive(kFar, receives, 256);
    client.fabric->post_receive(kNear, receives, 256);
    take(client, Kind::connected, kNear);
  }
  static ConnectionParams depths(std::uint32_t send, std::uint32_t keys) {
    ConnectionParams one;
    one.send_depth = send;
    one.receive_depth = 64;
    one.key_depth = keys;
    return one;
  }
  // Sends a message of this size from the client. Returns true if the message arrives.
  bool delivers(std::size_t bytes) {
    const std::vector<std::byte> text(bytes, std::byte{7});
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::send;
    work.inline_bytes = text;
    if (client.fabric->post(std::span(&work, 1)) != 1) return false;
    SeenEvent event;
    if (!heard(server, Kind::message_received, kFar)) return false;
    server.side->take(Kind::message_received, kFar, event);
    poll(server);  // frees the message's receive buffer
    server.fabric->post_receive(kFar, 1, 256);
    return event.text.size() == bytes;
  }
  std::size_t regions() const { return mock_hca::held(0).regions; }
};
INSTANTIATE_TEST_SUITE_P(MockHca, LimitsOf, kBothWays, param_name);

TEST_P(LimitsOf, SendDepthAllowsForBinds) {
  open({mock_hca::mlx5()});
  // A send queue of 2 MiB holds 6,553 work requests of 320 bytes.
  EXPECT_EQ(server.fabric->capabilities().max_send_depth, 6553U);
}

TEST_P(LimitsOf, WholeSendQueueIsUsableWithoutInvalidation) {
  open({mock_hca::irdma()});
  EXPECT_EQ(server.fabric->capabilities().max_send_depth, 4096U);
  connect_with(depths(4096, 0));
  EXPECT_TRUE(carries());
}

TEST_P(LimitsOf, ManyKeysDoNotFailAConnection) {
  open({mock_hca::mlx5()});
  connect_with(depths(4096, 8192));
  EXPECT_TRUE(carries());
  EXPECT_FALSE(server.logged("holds 6553"));
}

TEST_P(LimitsOf, ExcessiveDepthIsReducedAndLogged) {
  open({mock_hca::mlx5()});
  connect_with(depths(6553, 8192));
  EXPECT_TRUE(carries());
  EXPECT_TRUE(server.logged("mlx5_0 holds 6553 work requests of a connection, and 6617 are needed"));
  std::size_t told = 0;
  for (const auto& [level, text] : server.log) told += text.find("holds 6553") != std::string::npos ? 1 : 0;
  EXPECT_EQ(told, 1U);
}

TEST_P(LimitsOf, KeysDoNotReduceInlineData) {
  open({mock_hca::mlx5()});
  connect_with(depths(4096, 4096));
  EXPECT_GE(mock_hca::last_granted().max_inline_data, 96U);
  EXPECT_TRUE(carries());
}

// A Linux client opens a connection per CPU, so the memory per connection matters.
TEST_P(LimitsOf, SendQueueOfDefaultDepthTakesHalfAMebibyte) {
  open({mock_hca::mlx5()});
  connect_with(depths(3 * 512 + 32, 2 * 512));
  constexpr std::uint32_t kBytesEach = 320;
  EXPECT_LE(mock_hca::last_granted().max_send_wr * kBytesEach, 512U << 10);
  EXPECT_TRUE(carries());
}

TEST_P(LimitsOf, AllGrantedInlineDataIsUsed) {
  open({mock_hca::mlx5()});
  connect_with(depths(64, 0));
  EXPECT_EQ(mock_hca::last_granted().max_inline_data, 124U);
  const std::size_t before = regions();
  EXPECT_TRUE(delivers(124));
  EXPECT_EQ(regions(), before);
}

TEST_P(LimitsOf, SmallInlineLimitIsAccepted) {
  open({little_inline(64)});
  connect_with(depths(64, 0));
  EXPECT_EQ(mock_hca::last_granted().max_inline_data, 64U);
}

TEST_P(LimitsOf, MessagesWithoutInlineDataNeedNoNewRegistration) {
  open({mock_hca::hfi1()});
  connect_with(depths(64, 0), 32);
  ASSERT_TRUE(delivers(96));
  const std::size_t before = regions();
  for (unsigned i = 0; i < 300; ++i) ASSERT_TRUE(delivers(1 + i % 96)) << i;
  EXPECT_EQ(regions(), before);
}

// Sends more messages than the send buffers hold at a time.
TEST_P(LimitsOf, BurstOfMessagesArrivesWithoutInlineData) {
  open({mock_hca::hfi1()});
  ConnectionParams wanted = depths(1024, 0);
  wanted.receive_depth = 1024;
  connect_with(wanted, 1000);
  std::vector<std::vector<std::byte>> texts;
  std::vector<WorkRequest> work(1000);
  for (std::size_t i = 0; i < work.size(); ++i) {
    texts.emplace_back(1 + i % 96, static_cast<std::byte>(i));
    work[i].key = kNear;
    work[i].op = WorkRequest::Op::send;
    work[i].inline_bytes = texts.back();
  }
  const std::size_t before = regions();
  std::size_t posted = 0;
  EXPECT_TRUE(until([&] {
    posted += client.fabric->post(std::span(work).subspan(posted));
    return server.count(Kind::message_received, kFar) == work.size();
  })) << posted;
  EXPECT_EQ(regions(), before);
  for (std::size_t i = 0; i < work.size(); ++i) {
    SeenEvent event;
    ASSERT_TRUE(server.side->take(Kind::message_received, kFar, event));
    ASSERT_EQ(event.text, std::string(1 + i % 96, static_cast<char>(i))) << i;
  }
}

TEST_P(LimitsOf, ManyConnectRequestsMayBePending) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  constexpr std::uint16_t kMany = 200;
  for (std::uint16_t i = 0; i < kMany; ++i)
    client.fabric->connect({0, i, 1},
                           {.source = {}, .destination = kAddress, .port = server.fabric->listening_port()},
                           depths(8, 0), {});
  for (unsigned i = 0; i < 80; ++i) poll(client);  // the server has not answered yet
  EXPECT_EQ(client.side->count(Kind::connect_failed), 0U);
  EXPECT_TRUE(until([&] { return server.side->count(Kind::connect_requested) == kMany; }));
}

TEST_P(LimitsOf, FabricsUseDifferentCompletionVectors) {
  std::vector<std::size_t> found;
  for (const int vectors : {1, 8}) {
    mock_hca::Profile one = mock_hca::mlx5();
    one.vectors = vectors;
    open({one});
    connect_with(depths(8, 0));
    found.push_back(mock_hca::held(0).vectors);
    EXPECT_TRUE(carries());
    close();
  }
  EXPECT_EQ(found, (std::vector<std::size_t>{1, 2})) << "one vector per fabric";
}

// docs/fabric.md states this number.
TEST_P(LimitsOf, WindowKeyRepeatsAfter128Renewals) {
  for (const auto& profile : {mock_hca::mlx5(), mock_hca::irdma()}) {
    open({profile});
    connect_with(depths(64, 8));
    const auto memory = server.fabric->allocate(4096);
    ASSERT_TRUE(memory);
    const auto key = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
    ASSERT_TRUE(key);
    unsigned renewals = 0;
    std::uint32_t now_it_is = 0;
    while (now_it_is != key->rkey && renewals < 1000) {
      server.fabric->invalidate(kFar, key->id, renewals);
      take(server, Kind::chunk_invalidated, kFar);
      const auto renewed = server.fabric->rebind(kFar, key->id);
      ASSERT_TRUE(renewed);
      now_it_is = *renewed;
      ++renewals;
    }
    EXPECT_EQ(renewals, 128U);
    close();
  }
}

// A connection with more keys than its send queue holds work requests.
class ManyKeys : public LimitsOf {
 protected:
  static constexpr std::size_t kKeys = 300, kBytes = 64;

  void open_keys() {
    open({small_queues(100)});
    connect_with(depths(64, kKeys), 60);
    const auto memory = server.fabric->allocate(kKeys * kBytes);
    ASSERT_TRUE(memory);
    target = *memory;
    const auto from = client.fabric->allocate(kBytes);
    ASSERT_TRUE(from);
    source = *from;
    for (std::size_t i = 0; i < kKeys; ++i) {
      const auto key = server.fabric->make_revocable_key(kFar, target.id, i * kBytes, kBytes);
      ASSERT_TRUE(key);
      keys.push_back(*key);
    }
  }
  // Sends an immediate to the client. The immediate is queued behind the binds, so its arrival proves that
  // the binds were executed.
  void send_server_immediate() {
    WorkRequest work;
    work.key = kFar;
    work.op = WorkRequest::Op::write_imm;
    std::size_t posted = 0;
    ASSERT_TRUE(until([&] {
      if (posted == 0) posted = server.fabric->post(std::span(&work, 1));
      return client.count(Kind::imm_received, kNear) != 0;
    }));
    SeenEvent event;
    client.side->take(Kind::imm_received, kNear, event);
  }
  void write_through(std::size_t key) {
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::write_imm;
    work.rkey = keys[key].rkey;
    work.remote_addr = keys[key].remote_addr;
    work.parts[0] = {source.id, 0, kBytes};
    work.part_count = 1;
    std::size_t posted = 0;
    ASSERT_TRUE(until([&] {
      if (posted == 0) posted = client.fabric->post(std::span(&work, 1));
      return server.count(Kind::imm_received, kFar) != 0;
    })) << key;
    SeenEvent event;
    server.side->take(Kind::imm_received, kFar, event);
    server.fabric->post_receive(kFar, 1, 256);
  }

  Region target, source;
  std::vector<RemoteKey> keys;
};
INSTANTIATE_TEST_SUITE_P(MockHca, ManyKeys, kBothWays, param_name);

TEST_P(ManyKeys, KeysAreValidOnceAnnouncedOnTheConnection) {
  open_keys();
  send_server_immediate();
  for (std::size_t i = 0; i < kKeys; i += 23) write_through(i);
  write_through(kKeys - 1);
}

TEST_P(ManyKeys, AllKeysCanBeInvalidatedAndRenewed) {
  open_keys();
  for (unsigned round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < kKeys; ++i) server.fabric->invalidate(kFar, keys[i].id, i);
    ASSERT_TRUE(until([&] { return server.count(Kind::chunk_invalidated, kFar) == kKeys; }));
    for (std::size_t i = 0; i < kKeys; ++i) {
      SeenEvent event;
      server.side->take(Kind::chunk_invalidated, kFar, event);
      EXPECT_EQ(event.cookie, i);
      const auto renewed = server.fabric->rebind(kFar, keys[i].id);
      ASSERT_TRUE(renewed);
      EXPECT_NE(*renewed, keys[i].rkey);
      keys[i].rkey = *renewed;
    }
    send_server_immediate();
    write_through(kKeys - 1);
  }
}

// Keys whose binds still wait for room in the send queue are released.
TEST_P(ManyKeys, KeysMayBeReleasedBeforeTheirBind) {
  open_keys();
  for (std::size_t i = 0; i < kKeys; i += 2) server.fabric->release_key(keys[i].id);
  send_server_immediate();
  for (std::size_t i = 1; i < kKeys; i += 22) write_through(i);
}

TEST_P(ManyKeys, RegionMayBeReleasedBeforeTheBindsOfItsKeys) {
  open_keys();
  server.fabric->release(target.id);
  send_server_immediate();
}

}  // namespace
}  // namespace rtrs::conformance::limits_test
