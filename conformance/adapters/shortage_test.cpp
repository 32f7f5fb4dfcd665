// Errors and events when the verbs backend cannot get a resource, or cannot read all completions at once. The
// simulator found these cases on in-memory adapters.
#include <array>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::shortage_test {
namespace {

class Shortage : public TwoEnds {
 protected:
  // Sends a connect request and returns the event at the server, which has not answered yet.
  SeenEvent ask() {
    client.fabric->connect(
        kNear, {.source = {}, .destination = "192.0.2.1", .port = server.fabric->listening_port()}, params(),
        {});
    EXPECT_TRUE(until([&] { return server.side->count(SeenEvent::Kind::connect_requested) != 0; }));
    SeenEvent request;
    server.side->take(SeenEvent::Kind::connect_requested, request);
    return request;
  }
};

TEST_F(Shortage, AcceptWithoutAQueuePairSendsTheGivenRefusal) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  const SeenEvent request = ask();
  ConnectionParams given = params();
  given.refusal = bytes_of("out of memory");
  mock_hca::fail_creations(0, 4);
  server.fabric->accept(request.request, kFar, given, {});
  ASSERT_TRUE(mock_hca::creation_failed());
  const SeenEvent failed = take(client, SeenEvent::Kind::connect_failed, kNear);
  EXPECT_EQ(failed.reason, Reason::rejected);
  EXPECT_EQ(unpadded(failed.text), "out of memory");
  EXPECT_EQ(take(server, SeenEvent::Kind::connection_lost, kFar).reason, Reason::no_resources);
}

TEST_F(Shortage, ClosedFabricRejectsPendingRequestsWithoutData) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  ask();
  server.side.reset();
  server.fabric.reset();  // rejects unanswered requests
  for (unsigned i = 0; i < 80; ++i) poll(client);
  SeenEvent failed;
  ASSERT_TRUE(client.side->take(SeenEvent::Kind::connect_failed, kNear, failed));
  EXPECT_EQ(failed.text, "");
  EXPECT_FALSE(client.logged("(reason 28)")) << "a kernel client would wait for 30 s";
}

TEST_F(Shortage, MissingMemoryForReceivesIsReportedAsNoResources) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  mock_hca::fail_creations(0, 1);
  client.fabric->post_receive(kNear, 4, 4096);
  ASSERT_TRUE(mock_hca::creation_failed());
  EXPECT_EQ(take(client, SeenEvent::Kind::connection_lost, kNear).reason, Reason::no_resources);
}

TEST_F(Shortage, UnreportedCompletionsPreventSleep) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  constexpr std::uint32_t kMany = 6;
  for (std::uint32_t imm = 1; imm <= kMany; ++imm) {
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::write_imm;
    work.imm = imm;
    ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  }
  client.fabric->try_wait();  // hands the work to the device
  std::vector<std::uint32_t> seen;
  for (unsigned polls = 0; polls < 400 && seen.size() < kMany; ++polls) {
    std::array<FabricEvent, 1> one;
    if (server.fabric->poll(now, one) == 1) {
      if (const auto* arrived = std::get_if<event::ImmReceived>(&one[0])) seen.push_back(arrived->imm);
    }
    server.fabric->try_wait();
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6}));
}

// Completions of a closed connection stay in the completion queue until they are read, and the caller may
// poll without room for events for some time.
TEST_F(Shortage, NewConnectionTakesNoSpaceOfUnreadCompletions) {
  for (const bool polls_first : {false, true}) {
    mock_hca::Profile profile = mock_hca::rxe();
    profile.max_cqe = 128;  // maximum outstanding work of one connection
    open({profile});
    listen("192.0.2.1");
    ConnectionParams wanted;
    wanted.send_depth = wanted.receive_depth = 64;
    const auto connect_one = [&](ConKey near, ConKey far) {
      client.fabric->connect(
          near, {.source = {}, .destination = "192.0.2.1", .port = server.fabric->listening_port()}, wanted,
          {});
      client.fabric->post_receive(near, 64, 0);
      SeenEvent request;
      for (unsigned i = 0; i < 400 && !server.side->take(SeenEvent::Kind::connect_requested, request); ++i)
        client.fabric->poll(now, {}), poll(server);
      server.fabric->accept(request.request, far, wanted, {});
      server.fabric->post_receive(far, 64, 0);
      for (unsigned i = 0; i < 80; ++i) client.fabric->poll(now, {}), poll(server);
    };
    const auto send_all = [](End& end, ConKey key) {
      std::vector<WorkRequest> work(64);
      for (WorkRequest& one : work) one.key = key, one.op = WorkRequest::Op::write_imm, one.signalled = true;
      return end.fabric->post(work);
    };
    connect_one(kNear, kFar);
    ASSERT_EQ(send_all(client, kNear), 64U);
    client.fabric->disconnect(kNear);
    // `polls_first`: before the second connection is made, a poll reads a part of the completion queue.
    std::array<FabricEvent, 1> one;
    if (polls_first) {
      ASSERT_EQ(client.fabric->poll(now, one), 1U);
    }
    connect_one(kNearAgain, kFarAgain);
    ASSERT_EQ(send_all(client, kNearAgain), 64U);
    ASSERT_EQ(send_all(server, kFarAgain), 64U);
    client.fabric->poll(now, {}), poll(server);
    EXPECT_TRUE(until([&] {
      return client.count(SeenEvent::Kind::imm_received, kNearAgain) == 64 &&
             client.count(SeenEvent::Kind::send_done, kNearAgain) == 64;
    }));
    close();
  }
}

}  // namespace
}  // namespace rtrs::conformance::shortage_test
