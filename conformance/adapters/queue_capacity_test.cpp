// Capacity of queues and message buffers, and the outstanding work that a connection may have.
#include <array>
#include <string>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::queue_capacity_test {
namespace {

using Kind = SeenEvent::Kind;

class QueueCapacityTest : public TwoEnds {
 protected:
  void connect_with(const ConnectionParams& wanted, unsigned receives, ConKey near = kNear,
                    ConKey far = kFar) {
    client.fabric->connect(
        near, {.source = {}, .destination = kAddress, .port = server.fabric->listening_port()}, wanted, {});
    SeenEvent request;
    ASSERT_TRUE(until([&] { return server.side->take(Kind::connect_requested, request); }));
    server.fabric->accept(request.request, far, wanted, {});
    if (receives != 0) server.fabric->post_receive(far, receives, 256);
    take(client, Kind::connected, near);
    poll_both();
  }
  static WorkRequest immediate(ConKey key, std::uint32_t imm, bool signalled = false) {
    WorkRequest work;
    work.key = key;
    work.op = WorkRequest::Op::write_imm;
    work.imm = imm;
    work.signalled = signalled;
    work.cookie = imm;
    return work;
  }
  // Posts up to `most` messages without polling; returns how many the send queue accepted.
  std::size_t post_messages(std::size_t most, std::size_t bytes) {
    std::size_t posted = 0;
    for (; posted < most; ++posted) {
      const std::vector<std::byte> text(bytes, static_cast<std::byte>(next_text));
      WorkRequest work;
      work.key = kNear;
      work.op = WorkRequest::Op::send;
      work.inline_bytes = text;
      if (client.fabric->post(std::span(&work, 1)) != 1) break;
      ++next_text;
    }
    client.fabric->try_wait();
    return posted;
  }
  void expect_messages(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      if (server.count(Kind::message_received, kFar) == 0) server.fabric->post_receive(kFar, 1, 256);
      const SeenEvent event = take(server, Kind::message_received, kFar);
      ASSERT_EQ(event.text, std::string(bytes, static_cast<char>(seen_text++))) << i;
    }
    poll_both();
  }
  std::uint8_t next_text = 0, seen_text = 0;
};

// The adapter is removed and flushes all posted work at once, while nobody reads the queue. The queue must
// not overrun.
TEST_F(QueueCapacityTest, QueueHoldsAllCompletionsOfItsConnections) {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.flushes_when_taken_out = true;
  open({profile});
  listen(kAddress);
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  constexpr std::uint32_t kSends = 16, kReceives = 262, kKeys = 64;  // three connections: 1,026 in total
  for (std::uint16_t i = 0; i < 6; ++i) {
    const ConKey near{0, i, 1}, far{0, i, 2};
    ASSERT_NO_FATAL_FAILURE(connect_with(depths(kSends, kReceives, kKeys), 0, near, far));
    client.fabric->post_receive(near, kReceives, 0);
    for (std::uint32_t imm = 0; imm < kSends; ++imm) {
      const WorkRequest work = immediate(near, imm);
      ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
    }
    for (std::uint32_t key = 0; key < kKeys; ++key)
      ASSERT_TRUE(client.fabric->make_request_key(near, memory->id, 0, 4096));
    poll(client);
  }
  mock_hca::take_out(0);
  for (std::uint16_t i = 0; i < 6; ++i) take(client, Kind::connection_lost, {0, i, 1});
}

TEST_F(QueueCapacityTest, SpaceOfAClosedConnectionIsReused) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  std::size_t with_one_queue = 0;
  for (std::uint32_t i = 0; i < 60; ++i) {
    const ConKey near{0, 0, 2 * i + 1}, far{0, 0, 2 * i + 2};
    ASSERT_NO_FATAL_FAILURE(connect_with(depths(16, 16, 16), 1, near, far));
    leave(near, far);
    if (i == 0) with_one_queue = mock_hca::objects();
  }
  EXPECT_EQ(mock_hca::objects(), with_one_queue);
}

TEST_F(QueueCapacityTest, SmallerQueueIsUsedIfALargeOneCannotBeCreated) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  client.fabric->connect(
      kNear, {.source = {}, .destination = kAddress, .port = server.fabric->listening_port()}, params(), {});
  SeenEvent request;
  ASSERT_TRUE(until([&] { return server.side->take(Kind::connect_requested, request); }));
  mock_hca::fail_creations(0, 1);
  server.fabric->accept(request.request, kFar, params(), {});
  ASSERT_TRUE(mock_hca::creation_failed());
  take(client, Kind::connected, kNear);
}

TEST_F(QueueCapacityTest, HalfOfAQueueIsForReceives) {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.max_cqe = 256;
  open({profile});
  EXPECT_EQ(server.fabric->capabilities().max_send_depth, 128U);
  EXPECT_EQ(server.fabric->capabilities().max_receive_depth, 128U);
}

TEST_F(QueueCapacityTest, MaximumDepthIsFoundExactly) {
  for (const std::uint32_t depth : {64U, 65U, 66U, 127U, 4095U}) {
    mock_hca::Profile profile = mock_hca::mlx5();
    profile.send_queue_bytes = 0;
    profile.max_qp_wr = depth;
    open({profile});
    EXPECT_EQ(server.fabric->capabilities().max_send_depth, depth);
    close();
  }
}

// On a shallow send queue, unsignalled work is signalled as often as needed to free queue entries.
TEST_F(QueueCapacityTest, UnsignalledWorkRunsOnTheSmallestQueues) {
  struct {
    int cqe;
    ConnectionParams wanted;
  } const cases[] = {{4096, depths(1, 64, 0)},
                     {4096, depths(2, 64, 0)},
                     {4096, depths(3, 64, 0)},
                     {128, depths(256, 100, 0)}};
  for (const auto& [cqe, wanted] : cases) {
    mock_hca::Profile profile = mock_hca::mlx5();
    profile.max_cqe = cqe;
    open({profile});
    listen(kAddress);
    ASSERT_NO_FATAL_FAILURE(connect_with(wanted, 64));
    std::uint32_t posted = 0;
    EXPECT_TRUE(until([&] {
      const WorkRequest work = immediate(kNear, posted);
      if (posted < 60) posted += static_cast<std::uint32_t>(client.fabric->post(std::span(&work, 1)));
      return server.count(Kind::imm_received, kFar) == 60;
    })) << wanted.send_depth
        << ": " << posted;
    close();
  }
}

TEST_F(QueueCapacityTest, ExcessiveDepthIsLoggedOnce) {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.max_cqe = 128;
  open({profile});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(256, 100, 0), 1));
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(256, 100, 0), 1, kNearAgain, kFarAgain));
  std::size_t told = 0;
  for (const auto& [level, text] : server.log) told += text.find("are needed") != std::string::npos ? 1 : 0;
  EXPECT_EQ(told, 1U);
}

TEST_F(QueueCapacityTest, RoomForKeysDoesNotIncreaseTheSendDepth) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(64, 64, 32), 0));
  std::vector<WorkRequest> work(100, immediate(kNear, 1));
  EXPECT_EQ(client.fabric->post(work), 64U);
}

// A message that is longer than the adapter's inline data keeps its send buffer until it is sent, regardless
// of earlier work in the queue.
TEST_F(QueueCapacityTest, MessageKeepsItsSendBufferUntilItIsSent) {
  for (const std::uint32_t inline_bytes : {0U, 64U}) {
    mock_hca::Profile profile = mock_hca::mlx5();
    profile.send_queue_bytes = 0;
    profile.max_inline = inline_bytes;
    open({profile});
    listen(kAddress);
    constexpr std::uint32_t kDepth = 64;
    const std::size_t bytes = inline_bytes + 1;
    ASSERT_NO_FATAL_FAILURE(connect_with(depths(kDepth, 512, 64), 0));
    const auto memory = client.fabric->allocate(4096);
    ASSERT_TRUE(memory);
    for (unsigned round = 0; round < 4; ++round) {
      ASSERT_EQ(post_messages(2 * kDepth, bytes), kDepth);
      ASSERT_NO_FATAL_FAILURE(expect_messages(kDepth, bytes));
      for (unsigned i = 0; i < 2 * kDepth; ++i) {
        const auto key = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
        ASSERT_TRUE(key);
        poll(client);
        client.fabric->release_key(key->id);
      }
      poll_both();
    }
    close();
  }
}

TEST_F(QueueCapacityTest, DeepQueueHasAtMost256SendBuffers) {
  open({mock_hca::hfi1()});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(1024, 1024, 0), 0));
  for (unsigned round = 0; round < 4; ++round) {
    const std::size_t bytes = round % 2 == 0 ? 96 : 1;
    const std::size_t posted = post_messages(1000, bytes);
    // Only every eighth message is signalled, so up to seven buffers may be free without the fabric knowing
    // it.
    EXPECT_LE(posted, 256U);
    EXPECT_GE(posted, round == 0 ? 256U : 249U);
    ASSERT_NO_FATAL_FAILURE(expect_messages(posted, bytes));
  }
}

TEST_F(QueueCapacityTest, BindsFreeNoSendBuffersOfMessages) {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.send_queue_bytes = 0;
  profile.max_inline = 0;
  open({profile});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(1000, 1024, 0), 0));
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const std::size_t posted = post_messages(1000, 96);
  ASSERT_EQ(posted, 256U);
  ASSERT_NO_FATAL_FAILURE(expect_messages(posted, 96));
  for (unsigned i = 0; i < 1100; ++i) {
    const auto key = client.fabric->make_request_key(kNear, memory->id, 0, 4096);
    ASSERT_TRUE(key);
    poll(client);
    client.fabric->release_key(key->id);
  }
  poll_both();
  EXPECT_LE(post_messages(1000, 96), 256U);
}

TEST_F(QueueCapacityTest, LongMessageWithoutMemoryIsReportedAsNoResources) {
  open({mock_hca::hfi1()});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(16, 16, 0), 1));
  mock_hca::fail_creations(0, 1);
  post_messages(1, 200);
  EXPECT_EQ(take(client, Kind::connection_lost, kNear).reason, Reason::no_resources);
}

TEST_F(QueueCapacityTest, UnfinishedWorkIsCountedAsDiscarded) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(16, 16, 0), 2));
  std::vector<WorkRequest> work(7, immediate(kNear, 1, true));
  ASSERT_EQ(client.fabric->post(work), 7U);
  client.fabric->try_wait();  // hands the work to the device
  client.fabric->disconnect(kNear);
  EXPECT_EQ(client.fabric->stats().discarded_work, 5U);
  poll(client), poll(client);
  EXPECT_EQ(client.fabric->stats().discarded_work, 5U) << "once";
}

// The completions may be reported after the loss of the connection, depending on which queue is read first.
TEST_F(QueueCapacityTest, FinishedWorkIsNotCountedAsDiscardedAfterALoss) {
  bool late = false;
  for (unsigned polls = 0; polls < 33; ++polls) {
    open({mock_hca::mlx5()});
    listen(kAddress);
    ASSERT_NO_FATAL_FAILURE(connect_with(depths(16, 16, 0), 7));
    for (unsigned i = 0; i < polls; ++i) poll(client);
    std::vector<WorkRequest> work(7, immediate(kNear, 1, true));
    ASSERT_EQ(client.fabric->post(work), 7U);
    poll(client);  // hands the work to the device, which executes it
    server.fabric->disconnect(kFar);
    for (unsigned i = 0; i < 80 && client.count(Kind::connection_lost, kNear) == 0; ++i) poll(client);
    const std::size_t told = client.count(Kind::send_done, kNear);
    for (unsigned i = 0; i < 4; ++i) poll(client);
    client.fabric->disconnect(kNear);
    EXPECT_EQ(client.fabric->stats().discarded_work, 0U);
    EXPECT_EQ(client.fabric->stats().dropped_completions + told, 7U);
    late = late || told == 0;
    close();
  }
  EXPECT_TRUE(late);
}

// The bytes of an event stay valid until the next poll(), even if a receive is posted in between.
TEST_F(QueueCapacityTest, ReportedMessageIsNotOverwritten) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(16, 16, 0), 1));
  ASSERT_EQ(post_messages(1, 50), 1U);
  std::array<FabricEvent, 1> one;
  for (unsigned i = 0; i < 50 && server.fabric->poll(now, one) == 0; ++i) {
  }
  const auto* const message = std::get_if<event::MessageReceived>(&one[0]);
  ASSERT_NE(message, nullptr);
  server.fabric->post_receive(kFar, 1, 256);
  server.fabric->try_wait();
  ASSERT_EQ(post_messages(1, 50), 1U);
  EXPECT_EQ(message->payload[0], std::byte{0});
}

mock_hca::Profile binds_alone() {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.type_1_in_chain = mock_hca::Profile::Type1Chain::refuses;
  return profile;
}

// Work that was posted before a bind executes before it, for the first bind and for later ones.
TEST_F(QueueCapacityTest, BindDoesNotOvertakeEarlierWork) {
  open({binds_alone()});
  listen(kAddress);
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(16, 16, 16), 0));
  client.fabric->post_receive(kNear, 4, 0);
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  for (std::uint32_t imm = 1; imm <= 3; ++imm) {
    const WorkRequest work = immediate(kFar, imm, true);
    ASSERT_EQ(server.fabric->post(std::span(&work, 1)), 1U);
    const auto key = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
    ASSERT_TRUE(key);
    server.fabric->invalidate(kFar, key->id, 7);
    EXPECT_EQ(take(server, Kind::send_done, kFar).cookie, imm);
    EXPECT_EQ(take(client, Kind::imm_received, kNear).imm, imm);
    take(server, Kind::chunk_invalidated, kFar);
  }
}

// A key is renewed while the bind that invalidates the old key waits for queue space. The queue has space
// again, but the new bind must not be posted first.
TEST_F(QueueCapacityTest, RenewalDoesNotOvertakeTheInvalidationOfItsKey) {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.send_queue_bytes = 0;
  profile.max_qp_wr = 100;
  open({profile});
  listen(kAddress);
  constexpr std::size_t kKeys = 300;
  ASSERT_NO_FATAL_FAILURE(connect_with(depths(64, 60, kKeys), 60));
  const auto memory = server.fabric->allocate(kKeys * 64);
  const auto source = client.fabric->allocate(64);
  ASSERT_TRUE(memory && source);
  std::vector<RemoteKey> keys;
  for (std::size_t i = 0; i < kKeys; ++i) {
    const auto key = server.fabric->make_revocable_key(kFar, memory->id, i * 64, 64);
    ASSERT_TRUE(key);
    keys.push_back(*key);
  }
  poll_both();
  std::size_t dead = 0;
  for (std::size_t i = 0; i < kKeys; ++i) server.fabric->invalidate(kFar, keys[i].id, i);
  for (unsigned i = 0; i < 400 && dead == 0; ++i) {
    poll(server);
    dead = server.count(Kind::chunk_invalidated, kFar);
  }
  ASSERT_NE(dead, 0U);
  ASSERT_LT(dead, kKeys);
  const auto renewed = server.fabric->rebind(kFar, keys.back().id);
  ASSERT_TRUE(renewed);
  ASSERT_TRUE(until([&] { return server.count(Kind::chunk_invalidated, kFar) == kKeys; }));
  poll_both();
  WorkRequest work = immediate(kNear, 9);
  work.rkey = *renewed;
  work.remote_addr = keys.back().remote_addr;
  work.parts[0] = {source->id, 0, 64};
  work.part_count = 1;
  ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  EXPECT_EQ(take(server, Kind::imm_received, kFar).imm, 9U);
}

}  // namespace
}  // namespace rtrs::conformance::queue_capacity_test
