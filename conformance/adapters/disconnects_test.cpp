// Connection requests, rejections and disconnects, and the messages exchanged for them.
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <string>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::disconnects_test {
namespace {

using Kind = SeenEvent::Kind;

class DisconnectTest : public TwoEnds {
 protected:
  void start(const std::vector<mock_hca::Profile>& adapters = {mock_hca::mlx5()},
             const verbs::VerbsOptions& options = {}) {
    open(adapters, options);
    listen(kAddress);
  }
  void ask_with(std::span<const std::byte> data = {}, const std::string& address = kAddress) {
    client.fabric->connect(kNear,
                           {.source = {}, .destination = address, .port = server.fabric->listening_port()},
                           params(), data);
  }
  std::uint32_t ask() {
    ask_with();
    SeenEvent request;
    EXPECT_TRUE(until([&] { return server.side->take(Kind::connect_requested, request); }));
    return request.request;
  }
  static std::vector<std::byte> data(std::size_t bytes) { return std::vector(bytes, std::byte{5}); }
};

// The server disconnects before the handshake has completed, so the disconnect is sent once the client is
// connected.
TEST_F(DisconnectTest, EarlyDisconnectIsSentOnceThePeerHasConnected) {
  start();
  const std::uint32_t request = ask();
  server.fabric->accept(request, kFar, params(), {});
  poll(server);
  server.fabric->disconnect(kFar);
  take(client, Kind::connected, kNear);
  EXPECT_EQ(take(client, Kind::connection_lost, kNear).reason, Reason::peer_closed);
  client.fabric->disconnect(kNear);
  poll_both();
}

TEST_F(DisconnectTest, EarlyDisconnectAnswersThePeersDisconnect) {
  start();
  mock_hca::lose_next_rtu();
  const std::uint32_t request = ask();
  server.fabric->accept(request, kFar, params(), {});
  poll(server);
  server.fabric->disconnect(kFar);
  take(client, Kind::connected, kNear);
  client.fabric->disconnect(kNear);
  poll_both();
  now += seconds(20);
  poll_both();
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 0U);
}

TEST_F(DisconnectTest, DisconnectWaitsAtLeastTenSeconds) {
  verbs::VerbsOptions options;
  options.disconnect_timeout_ms = 100;
  start({mock_hca::mlx5()}, options);
  connect_both_ends(kAddress);
  client.fabric->disconnect(kNear);
  now += milliseconds(9'999);
  for (unsigned i = 0; i < 80; ++i) poll(client);
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 0U);
}

TEST_F(DisconnectTest, TimedOutHandshakeKeepsItsNumberInTimewait) {
  start({mlx5_reusing_numbers()});
  mock_hca::lose_next_rtu();
  connect_both_ends(kAddress);
  poll_both();
  mock_hca::give_up_handshakes();
  take(server, Kind::connection_lost, kFar);
  take(client, Kind::connection_lost, kNear);
  const std::size_t with = mock_hca::objects();
  client.fabric->disconnect(kNear);
  poll_both();
  EXPECT_EQ(mock_hca::objects() + 1, with) << "its receives are freed, its number is not";
  mock_hca::end_timewait();
  poll_both();
  server.fabric->disconnect(kFar);
  poll_both();
}

TEST_F(DisconnectTest, TooMuchDataFailsTheConnect) {
  start();
  const std::size_t most = client.fabric->capabilities().connect_data;
  ask_with(data(most + 1));
  EXPECT_EQ(take(client, Kind::connect_failed, kNear).reason, Reason::post_failed);
  client.fabric->disconnect(kNear);
  poll_both();
  ask_with(data(most));
  EXPECT_TRUE(until([&] { return server.side->count(Kind::connect_requested) != 0; }));
}

TEST_F(DisconnectTest, TooMuchDataFailsTheAccept) {
  start();
  const std::uint32_t request = ask();
  server.fabric->accept(request, kFar, params(), data(server.fabric->capabilities().accept_data + 1U));
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::post_failed);
  EXPECT_EQ(take(client, Kind::connect_failed, kNear).reason, Reason::rejected) << "the client does not wait";
}

TEST_F(DisconnectTest, RejectionCarriesAllOfItsDataOrNone) {
  for (const std::size_t more : {0U, 1U}) {
    start();
    const std::size_t bytes = server.fabric->capabilities().reject_data + more;
    server.fabric->reject(ask(), data(bytes));
    const SeenEvent failed = take(client, Kind::connect_failed, kNear);
    EXPECT_EQ(failed.reason, Reason::rejected);
    EXPECT_EQ(failed.text.size(), more == 0 ? bytes : 0U);
    EXPECT_EQ(client.logged("(reason 28)"), more == 0);
    close();
    client.log.clear();
  }
}

// The server process ended while the connect request was pending, so the kernel of its host rejects it
// without private data.
TEST_F(DisconnectTest, RejectionWithOnlyZerosHasNoData) {
  start();
  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ASSERT_EQ(inet_pton(AF_INET, kAddress, &address.sin_addr), 1);
  ASSERT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)), 0);
  ASSERT_EQ(rdma_listen(id, 0), 0);
  client.fabric->connect(kNear, {.source = {}, .destination = kAddress, .port = ntohs(rdma_get_src_port(id))},
                         params(), {});
  for (unsigned i = 0; i < 80; ++i) poll(client);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
  rdma_cm_id* const request = event->id;
  rdma_ack_cm_event(event);
  rdma_destroy_id(request);
  const SeenEvent failed = take(client, Kind::connect_failed, kNear);
  EXPECT_EQ(failed.reason, Reason::rejected);
  EXPECT_TRUE(client.logged("(reason 28)"));
  EXPECT_EQ(failed.text, "");
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}

TEST_F(DisconnectTest, ListenOnLoopbackFails) {
  start();
  EXPECT_EQ(server.fabric->listen({.source = {}, .destination = "127.0.0.1", .port = 0}), Errc::bad_address);
}

// Uses a separate reject code, because Linux's client takes code 28 (consumer reject) for a response with
// data.
TEST_F(DisconnectTest, RejectionWithoutDataIsNotAConsumerReject) {
  start();
  server.fabric->reject(ask(), {});
  EXPECT_EQ(take(client, Kind::connect_failed, kNear).text, "");
  EXPECT_FALSE(client.logged("(reason 28)"));
}

TEST_F(DisconnectTest, OnlyTheCloseIsReportedAfterADisconnect) {
  start();
  ask_with(data(client.fabric->capabilities().connect_data + 1U));
  client.fabric->disconnect(kNear);
  take(client, Kind::connection_closed, kNear);
  EXPECT_EQ(client.count(Kind::connect_failed, kNear), 0U);
}

TEST_F(DisconnectTest, AcceptAfterThePeerLeftReportsLoss) {
  start();
  const std::uint32_t request = ask();
  client.fabric->disconnect(kNear);
  poll_both();
  server.fabric->accept(request, kFar, params(), {});
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::peer_closed);
}

TEST_F(DisconnectTest, RequestIsLostWithItsDevice) {
  start();
  const std::uint32_t request = ask();
  EXPECT_NE(server.fabric->describe_request(request), "");
  mock_hca::take_out(0, mock_hca::Told::fatal);
  poll_both();
  EXPECT_EQ(server.fabric->describe_request(request), "");
  EXPECT_EQ(server.fabric->capabilities_of_request(request).name, server.fabric->capabilities().name);
  server.fabric->accept(request, kFar, params(), {});
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::peer_closed);
}

TEST_F(DisconnectTest, OnlyTheNamedDeviceIsUsedForConnections) {
  verbs::VerbsOptions options;
  options.device = "mlx5_0";
  start({mock_hca::mlx5(), second()}, options);
  ask_with({}, "192.0.2.2");
  take(client, Kind::connect_failed, kNear);
  EXPECT_TRUE(client.logged("only mlx5_0 is to be used"));
}

// The device reports the failure only through an asynchronous event.
TEST_F(DisconnectTest, FailedQueuePairIsNotReportedAsRemovedDevice) {
  start();
  connect_both_ends(kAddress);
  ASSERT_TRUE(carries());
  mock_hca::raise_on_last_queue_pair(IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_TRUE(until([&] {
    return client.side->count(Kind::connection_lost) + server.side->count(Kind::connection_lost) != 0;
  }));
  SeenEvent lost;
  ASSERT_TRUE(client.side->take(Kind::connection_lost, lost) ||
              server.side->take(Kind::connection_lost, lost));
  EXPECT_EQ(lost.reason, Reason::transport_error);
}

TEST_F(DisconnectTest, ErrorAfterTheDisconnectOfThePeerIsReportedAsDisconnect) {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.gives_up_after = 0;
  start({profile});
  connect_both_ends(kAddress);
  ASSERT_TRUE(carries());
  server.fabric->disconnect(kFar);
  WorkRequest work;
  work.key = kNear;
  work.op = WorkRequest::Op::write_imm;
  ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  client.fabric
      ->try_wait();  // posts to the device and makes the next poll read connection manager events first
  mock_hca::tick();
  EXPECT_EQ(take(client, Kind::connection_lost, kNear).reason, Reason::peer_closed);
}

TEST_F(DisconnectTest, UnansweredRequestPreventsSleep) {
  start();
  const std::uint32_t request = ask();
  server.fabric->accept(request, kFar, params(), {});
  EXPECT_FALSE(server.fabric->try_wait());
}

TEST_F(DisconnectTest, UnreportedLossPreventsSleep) {
  start();
  connect_both_ends(kAddress);
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  ASSERT_TRUE(carries() && carries(kNearAgain, kFarAgain));
  poll_both();
  server.fabric->try_wait();
  mock_hca::overrun_last_queue();
  End* end = nullptr;
  std::array<FabricEvent, 1> one;
  for (unsigned i = 0; i < 80 && end == nullptr; ++i)
    for (End* each : {&client, &server})
      if (end == nullptr && each->fabric->poll(now, one) == 1) end = each;
  ASSERT_NE(end, nullptr);
  EXPECT_FALSE(end->fabric->try_wait());
  EXPECT_EQ(end->fabric->poll(now, one), 1U);
}

TEST_F(DisconnectTest, FirstPollAfterSleepChecksEverything) {
  start();
  connect_both_ends(kAddress);
  poll_both();
  poll(server);
  EXPECT_TRUE(until([&] { return server.fabric->try_wait(); }));
  mock_hca::set_port(0, false);
  poll(server);
  EXPECT_TRUE(server.logged("port 1 is down"));
}

TEST_F(DisconnectTest, SourceOfAnotherAddressFamilyIsRefused) {
  start();
  client.fabric->connect(
      kNear, {.source = "2001:db8::1", .destination = kAddress, .port = server.fabric->listening_port()},
      params(), {});
  EXPECT_EQ(take(client, Kind::connect_failed, kNear).reason, Reason::source_unavailable);
}

// Both names are looked up concurrently, and no adapter reaches the address.
TEST_F(DisconnectTest, TwoNamesAreResolvedConcurrently) {
  start();
  for (const ConKey key : {kNear, kNearAgain})
    client.fabric->connect(key, {.source = {}, .destination = "localhost", .port = 1}, params(), {});
  for (unsigned i = 0; i < 100 && client.side->count(Kind::connect_failed) < 2; ++i) {
    pollfd one{.fd = client.fabric->wait_fd(), .events = POLLIN, .revents = 0};
    if (client.fabric->try_wait()) ::poll(&one, 1, 1000);
    poll(client);
  }
  for (const ConKey key : {kNear, kNearAgain})
    EXPECT_EQ(take(client, Kind::connect_failed, key).reason, Reason::address_unresolved);
}

// Two connects have failed, and the first poll() has room for one event only. The disconnect of one
// connection must not drop the event of the other one.
TEST_F(DisconnectTest, DisconnectKeepsEventsOfOtherConnections) {
  start();
  const auto too_much = data(client.fabric->capabilities().connect_data + 1U);
  for (const ConKey key : {kNear, kNearAgain})
    client.fabric->connect(key, {.source = {}, .destination = kAddress, .port = 1}, params(), too_much);
  std::array<FabricEvent, 1> one;
  ASSERT_EQ(client.fabric->poll(now, one), 1U);
  client.fabric->disconnect(kNear);
  poll_both();
  EXPECT_EQ(client.count(Kind::connect_failed, kNearAgain), 1U);
  EXPECT_EQ(client.count(Kind::connection_closed, kNear), 1U);
}

TEST_F(DisconnectTest, PostBeforeTheConnectionIsUpAcceptsNothing) {
  start();
  const auto posted = [&] {
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::write_imm;
    return client.fabric->post(std::span(&work, 1));
  };
  ask_with();
  EXPECT_EQ(posted(), 0U);
  for (unsigned i = 0; i < 80; ++i) poll(client);  // the request reaches the server
  EXPECT_EQ(posted(), 0U);
  SeenEvent request;
  ASSERT_TRUE(until([&] { return server.side->take(Kind::connect_requested, request); }));
  server.fabric->accept(request.request, kFar, params(), {});
  server.fabric->post_receive(kFar, 1, 0);
  take(client, Kind::connected, kNear);
  EXPECT_EQ(posted(), 1U);
  take(server, Kind::imm_received, kFar);
}

TEST_F(DisconnectTest, ConnectionLostBeforeItsAcceptIsRejected) {
  start();
  const std::uint32_t request = ask();
  server.fabric->accept(request, kFar, params(), {});
  mock_hca::fail_creations(0, 1);
  server.fabric->post_receive(kFar, 4, 4096);
  ASSERT_TRUE(mock_hca::creation_failed());
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::no_resources);
  poll_both();
  EXPECT_EQ(client.count(Kind::connected, kNear), 0U);
  server.fabric->disconnect(kFar);
  take(client, Kind::connect_failed, kNear);
}

// Both ends name the connection "client > server".
TEST_F(DisconnectTest, BothEndsDescribeAConnectionEqually) {
  start();
  connect_both_ends(kAddress);
  const std::string name = client.fabric->describe(kNear);
  EXPECT_EQ(name, server.fabric->describe(kFar));
  EXPECT_NE(name.find(" > "), std::string::npos);
  EXPECT_EQ(name.substr(name.rfind(':')), ":" + std::to_string(server.fabric->listening_port()));
  for (const DevicePort& one : {client.fabric->device_of(kNear), server.fabric->device_of(kFar)}) {
    EXPECT_EQ(one.name, "mlx5_0");
    EXPECT_EQ(one.port, 1U);
  }
}

// The host is the address without the port, because connection limits apply per host.
TEST_F(DisconnectTest, RequestIdentifiesItsHost) {
  start();
  const std::uint16_t port = server.fabric->listening_port();
  listen("2001:db8::1");
  const std::uint16_t other_port = server.fabric->listening_port();
  std::vector<std::uint32_t> hosts;
  const auto ask_once = [&](ConKey near, const std::string& address, std::uint16_t at) {
    client.fabric->connect(near, {.source = {}, .destination = address, .port = at}, params(), {});
    std::array<FabricEvent, 1> one;
    for (unsigned i = 0; i < 80; ++i) {
      poll(client);
      if (server.fabric->poll(now, one) == 0) continue;
      hosts.push_back(std::get<event::ConnectRequested>(one[0]).host);
    }
  };
  ask_once(kNear, kAddress, port);
  ask_once(kNearAgain, kAddress, port);
  ask_once({0, 0, 5}, "2001:db8::1", other_port);
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0], hosts[1]);
  EXPECT_NE(hosts[0], hosts[2]);
}

}  // namespace
}  // namespace rtrs::conformance::disconnects_test
