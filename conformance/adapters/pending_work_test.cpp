// Connections and devices that end while work is in flight: which events are reported, and that no object is
// leaked.
#include <array>
#include <string>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::pending_work_test {
namespace {

using Kind = SeenEvent::Kind;
using mock_hca::Told;

class PendingWorkTest : public TwoEnds {
 protected:
  static constexpr std::size_t kMany = 100;  // more completions than one read of a completion queue returns
  static ConnectionParams many() {
    ConnectionParams one;
    one.send_depth = kMany + 16;
    one.receive_depth = kMany + 8;
    one.key_depth = 16;
    return one;
  }
  void connected(const mock_hca::Profile& adapter = mock_hca::mlx5()) {
    open({adapter});
    listen(kAddress);
    ASSERT_NO_FATAL_FAILURE(connect_both_ends(kAddress, kNear, kFar, many()));
    ASSERT_TRUE(carries());
    poll_both();
  }
  // Posts `count` immediates to the device.
  static void send(End& end, ConKey key, std::size_t count, bool signalled = false) {
    WorkRequest work;
    work.key = key;
    work.op = WorkRequest::Op::write_imm;
    work.signalled = signalled;
    const std::vector<WorkRequest> all(count, work);
    ASSERT_EQ(end.fabric->post(all), count);
    end.fabric->try_wait();
  }
  // Number of immediates that the client gets before the loss of the connection is reported. All of them must
  // fit in one poll.
  std::size_t arrives_before_the_end() {
    std::array<FabricEvent, 2 * kMany> events;
    std::size_t arrived = 0;
    for (unsigned i = 0; i < 80; ++i) {
      for (const FabricEvent& one : std::span(events).first(client.fabric->poll(now, events))) {
        if (std::holds_alternative<event::ConnectionLost>(one)) return arrived;
        arrived += std::holds_alternative<event::ImmReceived>(one) ? 1 : 0;
      }
    }
    ADD_FAILURE() << "no end";
    return arrived;
  }
  std::uint32_t ask(ConKey near) {
    client.fabric->connect(
        near, {.source = {}, .destination = kAddress, .port = server.fabric->listening_port()}, params(), {});
    SeenEvent request;
    EXPECT_TRUE(until([&] { return server.side->take(Kind::connect_requested, request); }));
    return request.request;
  }
};

TEST_F(PendingWorkTest, ArrivedDataIsReportedBeforeTheLoss) {
  ASSERT_NO_FATAL_FAILURE(connected());
  client.fabric->post_receive(kNear, kMany, 0);
  poll_both();
  ASSERT_NO_FATAL_FAILURE(send(server, kFar, kMany));
  for (unsigned i = 0; i < 4; ++i) client.fabric->poll(now, {});  // all immediates have arrived
  server.fabric->disconnect(kFar);
  client.fabric->try_wait();  // makes the next poll also read the connection manager
  EXPECT_EQ(arrives_before_the_end(), kMany);
}

// When the connection closes, its completions may still be in the device's queue, or may have been read
// before, or may be read because another connection closes. Each must be counted once.
TEST_F(PendingWorkTest, CompletedWorkIsCountedOnce) {
  for (const unsigned looks : {0U, 1U, 2U, 3U, 4U, 5U}) {
    for (const bool other_first : {false, true}) {
      ASSERT_NO_FATAL_FAILURE(connected());
      server.fabric->post_receive(kFar, kMany, 0);
      ASSERT_NO_FATAL_FAILURE(connect_both_ends(kAddress, kNearAgain, kFarAgain, many()));
      poll_both();
      const std::uint64_t before = client.fabric->stats().dropped_completions;
      ASSERT_NO_FATAL_FAILURE(send(client, kNear, kMany, true));
      for (unsigned i = 0; i < looks; ++i) client.fabric->poll(now, {});
      if (other_first) client.fabric->disconnect(kNearAgain);
      client.fabric->disconnect(kNear);
      EXPECT_EQ(client.fabric->stats().dropped_completions, before + kMany) << looks << other_first;
      EXPECT_EQ(client.fabric->stats().discarded_work, 0U) << looks << other_first;
      close();
    }
  }
}

// An adapter that does not clean its completion queue reports the work after the queue pair was destroyed.
TEST_F(PendingWorkTest, LateCompletionsCountAsDone) {
  ASSERT_NO_FATAL_FAILURE(connected(mock_hca::rxe()));
  WorkRequest work;
  work.key = kNear;
  work.op = WorkRequest::Op::write_imm;
  work.signalled = true;
  const std::vector<WorkRequest> all(5, work);
  ASSERT_EQ(client.fabric->post(all), 5U);
  client.fabric->poll(now, {});
  client.fabric->disconnect(kNear);
  EXPECT_EQ(client.fabric->stats().discarded_work, 0U);
}

TEST_F(PendingWorkTest, ArrivalsAreCountedAsDroppedOnce) {
  for (const unsigned looks : {0U, 3U, 4U}) {
    ASSERT_NO_FATAL_FAILURE(connected());
    client.fabric->post_receive(kNear, kMany, 0);
    poll_both();
    const std::uint64_t before = client.fabric->stats().dropped_completions;
    ASSERT_NO_FATAL_FAILURE(send(server, kFar, kMany));
    for (unsigned i = 0; i < looks; ++i) client.fabric->poll(now, {});
    client.fabric->disconnect(kNear);
    const std::uint64_t dropped = client.fabric->stats().dropped_completions - before;
    EXPECT_EQ(dropped, looks == 0 ? dropped : kMany);
    EXPECT_LE(dropped, kMany);
    close();
  }
}

// try_wait() read some completions; more arrive afterwards and must be reported before the connection's end.
TEST_F(PendingWorkTest, ArrivalsAfterTryWaitAreReportedBeforeTheLoss) {
  ASSERT_NO_FATAL_FAILURE(connected());
  client.fabric->post_receive(kNear, 11, 0);
  poll_both();
  ASSERT_NO_FATAL_FAILURE(send(server, kFar, 10));
  EXPECT_FALSE(client.fabric->try_wait());
  ASSERT_NO_FATAL_FAILURE(send(server, kFar, 1));
  server.fabric->disconnect(kFar);
  EXPECT_EQ(arrives_before_the_end(), 11U);
}

TEST_F(PendingWorkTest, LostConnectionInvalidatesNothing) {
  ASSERT_NO_FATAL_FAILURE(connected());
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto window = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
  const auto registration = server.fabric->make_key(memory->id, 0, 4096);
  ASSERT_TRUE(window && registration);
  client.fabric->disconnect(kNear);
  take(server, Kind::connection_lost, kFar);
  for (const RemoteKeyId id : {window->id, registration->id, RemoteKeyId{77}})
    server.fabric->invalidate(kFar, id, 1);
  poll_both();
  EXPECT_EQ(server.count(Kind::chunk_invalidated, kFar), 0U);
}

TEST_F(PendingWorkTest, RenewedKeyIsPostedByTheNextPoll) {
  ASSERT_NO_FATAL_FAILURE(connected());
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  const auto key = server.fabric->make_revocable_key(kFar, memory->id, 0, 4096);
  ASSERT_TRUE(key);
  server.fabric->invalidate(kFar, key->id, 1);
  take(server, Kind::chunk_invalidated, kFar);
  poll_both();
  const std::uint64_t before = mock_hca::counts(0).work_requests;
  ASSERT_TRUE(server.fabric->rebind(kFar, key->id));
  poll(server);
  EXPECT_EQ(mock_hca::counts(0).work_requests, before + 1);
}

// The last free 64-byte buffers are used up, so the receive must get a buffer of the requested, different
// size.
TEST_F(PendingWorkTest, ReceiveHasTheRequestedLength) {
  ASSERT_NO_FATAL_FAILURE(connected());
  for (unsigned i = 0; i < 7; ++i) ASSERT_TRUE(carries());  // eight buffers of 64 bytes are free again
  for (unsigned i = 0; i < 2; ++i) server.fabric->post_receive(kFar, 1, 256);
  const std::vector<std::byte> text(200, std::byte{'x'});
  WorkRequest work;
  work.key = kNear;
  work.op = WorkRequest::Op::send;
  work.inline_bytes = text;
  for (unsigned i = 0; i < 2; ++i) {
    ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
    EXPECT_EQ(take(server, Kind::message_received, kFar).text.size(), text.size());
  }
}

// Receives are posted one by one, and more of them than one call passes to the device.
TEST_F(PendingWorkTest, ManyReceivesMayBePostedBetweenTwoPolls) {
  ASSERT_NO_FATAL_FAILURE(connected());
  for (unsigned round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < kMany; ++i) server.fabric->post_receive(kFar, 1, 0);
    poll(server);
    ASSERT_NO_FATAL_FAILURE(send(client, kNear, kMany, true));
    ASSERT_TRUE(until([&] { return server.count(Kind::imm_received, kFar) == kMany; }));
    server.side->events().clear();
    poll_both();
  }
}

TEST_F(PendingWorkTest, QueueOfARemovedDeviceDoesNotPreventSleep) {
  ASSERT_NO_FATAL_FAILURE(connected());
  mock_hca::take_out(0, Told::fatal);
  take(client, Kind::connection_lost, kNear);
  bool sleeps = false;
  for (unsigned i = 0; i < 80 && !sleeps; ++i) {
    poll(client);
    sleeps = client.fabric->try_wait();
  }
  EXPECT_TRUE(sleeps);
}

TEST_F(PendingWorkTest, OverrunQueueIsNotReportedAsRemovedDevice) {
  ASSERT_NO_FATAL_FAILURE(connected());
  mock_hca::overrun_last_queue();
  SeenEvent lost;
  ASSERT_TRUE(until([&] {
    return client.side->take(Kind::connection_lost, lost) || server.side->take(Kind::connection_lost, lost);
  }));
  EXPECT_EQ(lost.reason, Reason::transport_error);
}

TEST_F(PendingWorkTest, UnestablishedConnectionIsNotReportedLost) {
  enum { told, overrun, failed };
  for (const auto how : {told, overrun, failed}) {
    ASSERT_NO_FATAL_FAILURE(connected());
    client.fabric->connect(kNearAgain,
                           {.source = {}, .destination = kAddress, .port = server.fabric->listening_port()},
                           params(), {});
    client.fabric->post_receive(kNearAgain, 4, 64);
    for (unsigned i = 0; i < 80; ++i) poll(client);  // the request reaches the server
    if (how == told) mock_hca::raise_on_last_queue_pair(IBV_EVENT_QP_FATAL);
    if (how == overrun) mock_hca::overrun_last_queue();
    if (how == failed) mock_hca::fail_last_queue_pair(IBV_EVENT_QP_FATAL);
    for (unsigned i = 0; i < 80; ++i) poll(client);
    EXPECT_EQ(client.count(Kind::connection_lost, kNear), how == overrun ? 1U : 0U);
    EXPECT_EQ(client.count(Kind::connection_lost, kNearAgain), 0U);
    SeenEvent request;
    ASSERT_TRUE(until([&] { return server.side->take(Kind::connect_requested, request); }));
    server.fabric->accept(request.request, kFarAgain, params(), {});
    take(client, how == failed ? Kind::connect_failed : Kind::connected, kNearAgain);
    poll_both();
    EXPECT_EQ(client.count(Kind::connection_lost, kNearAgain), how == overrun ? 1U : 0U);
    close();
  }
}

TEST_F(PendingWorkTest, EachFatalQueuePairEventEndsItsConnection) {
  for (const ibv_event_type type : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    ASSERT_NO_FATAL_FAILURE(connected());
    mock_hca::raise_on_last_queue_pair(type);
    EXPECT_TRUE(until([&] {
      return client.count(Kind::connection_lost, kNear) + server.count(Kind::connection_lost, kFar) != 0;
    })) << type;
    close();
  }
}

TEST_F(PendingWorkTest, RemovedDeviceEndsOnlyItsOwnConnections) {
  for (const Told told : {Told::fatal, Told::removal}) {
    open({mock_hca::mlx5(), second()});
    ASSERT_EQ(server.fabric->listen({.source = {}, .destination = {}, .port = 0}), Errc::ok);
    for (std::uint16_t path = 0; path < 8; ++path)
      ASSERT_NO_FATAL_FAILURE(
          connect_both_ends(path % 2 == 0 ? "192.0.2.1" : "192.0.2.2", {path, 0, 1}, {path, 0, 2}));
    mock_hca::take_out(1, told);
    poll_both();
    for (std::uint16_t path = 0; path < 8; ++path) {
      EXPECT_EQ(client.count(Kind::connection_lost, {path, 0, 1}), path % 2) << path;
      EXPECT_EQ(server.count(Kind::connection_lost, {path, 0, 2}), path % 2) << path;
    }
    EXPECT_TRUE(carries({0, 0, 1}, {0, 0, 2}));
    close();
  }
}

TEST_F(PendingWorkTest, NoDisconnectIsSentOverARemovedDevice) {
  ASSERT_NO_FATAL_FAILURE(connected());
  mock_hca::take_out(0, Told::fatal);
  take(client, Kind::connection_lost, kNear);
  take(server, Kind::connection_lost, kFar);
  client.fabric->disconnect(kNear);
  for (unsigned i = 0; i < 4; ++i) poll(client);
  server.fabric->disconnect(kFar);
  for (unsigned i = 0; i < 4; ++i) poll(server);
  expect_nothing_of_devices(0);
}

TEST_F(PendingWorkTest, AllListenersResumeWhenTheirDeviceReturns) {
  constexpr const char* kOther = "2001:db8::1";
  open({mock_hca::mlx5()});
  listen(kOther);
  const std::uint16_t other_port = server.fabric->listening_port();
  listen(kAddress);
  mock_hca::take_out(0, Told::fatal);
  poll_both();
  expect_nothing_of_devices(0);
  mock_hca::put_back(0);
  now += seconds(1);
  poll_both();
  ASSERT_NO_FATAL_FAILURE(connect_both_ends(kAddress));
  client.fabric->connect(kNearAgain, {.source = {}, .destination = kOther, .port = other_port}, params(), {});
  EXPECT_TRUE(until([&] { return server.side->count(Kind::connect_requested) != 0; }));
}

TEST_F(PendingWorkTest, ListenerOfTheReturnedDeviceResumes) {
  open({mock_hca::mlx5(), second()});
  listen(kAddress);
  listen("192.0.2.2");
  mock_hca::take_out(1);
  poll_both();
  mock_hca::put_back(1);
  now += seconds(1);
  poll_both();
  ASSERT_NO_FATAL_FAILURE(connect_both_ends("192.0.2.2"));
  EXPECT_TRUE(carries());
}

// The device has returned and a listener was created on it, but opening the device itself failed.
TEST_F(PendingWorkTest, ListenerIsFreedWithADeviceThatCouldNotBeOpened) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  mock_hca::take_out(0, Told::removal);
  poll_both();
  mock_hca::put_back(0);
  mock_hca::fail_creations(1, 8);
  now += seconds(1);
  poll_both();
  ASSERT_TRUE(mock_hca::creation_failed());
  mock_hca::fail_creations(0, 0);
  expect_nothing_of_devices(1);
  mock_hca::take_out(0, Told::removal);
  poll_both();
  expect_nothing_of_devices(0);
  mock_hca::put_back(0);
  now += seconds(1);
  poll_both();
  connect_both_ends(kAddress);
  EXPECT_TRUE(carries());
}

TEST_F(PendingWorkTest, EarlyDisconnectKeepsItsNumberInTimewait) {
  open({mlx5_reusing_numbers()});
  listen(kAddress);
  const std::uint32_t request = ask(kNear);
  server.fabric->accept(request, kFar, params(), {});
  poll(server);
  server.fabric->disconnect(kFar);
  take(client, Kind::connection_lost, kNear);
  client.fabric->disconnect(kNear);
  poll_both();
  const std::size_t with = mock_hca::objects();
  mock_hca::end_timewait();
  poll_both();
  EXPECT_EQ(mock_hca::objects() + 4, with) << "a queue pair and an identifier at each end";
}

TEST_F(PendingWorkTest, DisconnectAfterTimewaitFreesObjectsAtOnce) {
  ASSERT_NO_FATAL_FAILURE(connected(mlx5_reusing_numbers()));
  client.fabric->disconnect(kNear);
  take(server, Kind::connection_lost, kFar);
  mock_hca::end_timewait();
  poll_both();
  const std::size_t with = mock_hca::objects();
  server.fabric->disconnect(kFar);
  poll(server), poll(server);
  EXPECT_LT(mock_hca::objects(), with - 1) << "a queue pair, an identifier and registrations";
  const std::size_t without = mock_hca::objects();
  now += seconds(20);
  poll_both();
  EXPECT_EQ(mock_hca::objects(), without);
}

TEST_F(PendingWorkTest, NoDisconnectIsAwaitedFromAnUnconnectedPeer) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  mock_hca::lose_next_rtu();
  connect_both_ends(kAddress);
  poll_both();
  mock_hca::give_up_handshakes();
  take(server, Kind::connection_lost, kFar);
  leave();
  now += seconds(20);
  poll_both();
  EXPECT_EQ(server.fabric->stats().unconfirmed_disconnects, 0U);
}

}  // namespace
}  // namespace rtrs::conformance::pending_work_test
