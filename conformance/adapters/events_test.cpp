// Events that the connection manager and real devices report, but that soft-RoCE does not report in an
// undisturbed lab.
#include <algorithm>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::events_test {
namespace {

using Kind = SeenEvent::Kind;

class Events : public TwoEndsBothWays {
 protected:
  void connected(const std::vector<mock_hca::Profile>& adapters = {mock_hca::mlx5()}) {
    open(adapters);
    listen(kAddress);
    connect_both_ends(kAddress);
    ASSERT_TRUE(carries());
  }
};
INSTANTIATE_TEST_SUITE_P(MockHca, Events, kBothWays, param_name);

TEST_P(Events, ListenerFollowsABondFailover) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5(), second()}));
  const std::uint16_t port = server.fabric->listening_port();
  mock_hca::fail_over(0, 1);
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::transport_error);
  take(client, Kind::connection_lost, kNear);
  EXPECT_TRUE(server.logged("moved to another network interface"));
  leave();
  EXPECT_EQ(server.fabric->listening_port(), port);
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  EXPECT_EQ(server.fabric->device_of(kFarAgain).name, "mlx5_1");
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
  leave(kNearAgain, kFarAgain);
}

TEST_P(Events, ListenerResumesWhenTheDeviceOfABondReturns) {
  open({mock_hca::mlx5(), second()});
  listen(kAddress);
  mock_hca::fail_over(0, 1);
  mock_hca::take_out(1, mock_hca::Told::removal);
  poll_both();
  mock_hca::put_back(1);
  now += seconds(1);
  poll_both();
  connect_both_ends(kAddress);
  EXPECT_TRUE(carries());
  leave();
}

TEST_P(Events, BondReturnsToAReplacedDevice) {
  open({mock_hca::mlx5(), second()});
  listen(kAddress);
  mock_hca::fail_over(0, 1);
  poll_both();
  mock_hca::take_out(0, mock_hca::Told::removal);  // no connection is affected: the device is not in use
  mock_hca::put_back(0);
  mock_hca::fail_over(1, 0);
  poll_both();
  EXPECT_EQ(server.fabric->stats().removed_devices, 1U);
  connect_both_ends(kAddress);
  EXPECT_EQ(server.fabric->device_of(kFar).name, "mlx5_0");
  EXPECT_TRUE(carries());
  leave();
}

TEST_P(Events, ChangedPeerHardwareAddressEndsTheConnection) {
  ASSERT_NO_FATAL_FAILURE(connected());
  mock_hca::change_neighbour(0);
  EXPECT_EQ(take(client, Kind::connection_lost, kNear).reason, Reason::transport_error);
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::transport_error);
  EXPECT_TRUE(client.logged("hardware address of the peer has changed"));
  EXPECT_FALSE(client.logged("no answer"));
  leave();
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
  leave(kNearAgain, kFarAgain);
}

TEST_P(Events, AttemptAfterAStaleRejectSucceeds) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  mock_hca::reject_as_stale(1);
  client.fabric->connect(
      kNear, {.source = {}, .destination = kAddress, .port = server.fabric->listening_port()}, params(), {});
  EXPECT_EQ(take(client, Kind::connect_failed, kNear).reason, Reason::transport_error);
  EXPECT_TRUE(client.logged("older connection of this queue pair"));
  client.fabric->disconnect(kNear);
  connect_both_ends(kAddress, kNearAgain, kFar);
  EXPECT_TRUE(carries(kNearAgain, kFar));
  leave(kNearAgain, kFar);
}

// One end disconnects and the other follows, or both disconnect at the same time.
TEST_P(Events, NumberInTimewaitIsNotReused) {
  for (const bool at_once : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(connected({mlx5_reusing_numbers()}));
    const auto part = [&](ConKey near, ConKey far) {
      client.fabric->disconnect(near);
      if (!at_once) poll_both();
      server.fabric->disconnect(far);
      poll_both();
    };
    part(kNear, kFar);
    mock_hca::end_timewait();
    poll_both();
    const std::size_t without = mock_hca::objects();

    connect_both_ends(kAddress, kNearAgain, kFarAgain);
    part(kNearAgain, kFarAgain);
    // If the old queue pair number were reused, the connection request would be rejected as stale.
    connect_both_ends(kAddress, {0, 0, 5}, {0, 0, 6});
    EXPECT_TRUE(carries({0, 0, 5}, {0, 0, 6}));
    part({0, 0, 5}, {0, 0, 6});
    EXPECT_GT(mock_hca::objects(), without);
    mock_hca::end_timewait();
    poll_both();
    EXPECT_EQ(mock_hca::objects(), without);
    EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects + server.fabric->stats().unconfirmed_disconnects,
              0U);
    close();
  }
}

TEST_P(Events, TimewaitDoesNotCountAsUnconfirmedDisconnect) {
  ASSERT_NO_FATAL_FAILURE(connected({mlx5_reusing_numbers()}));
  client.fabric->disconnect(kNear);
  take(server, Kind::connection_lost, kFar);
  server.fabric->disconnect(kFar);
  poll_both();
  now += seconds(10);
  poll_both();
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects + server.fabric->stats().unconfirmed_disconnects,
            0U);
}

TEST_P(Events, EndlessTimewaitIsGivenUp) {
  ASSERT_NO_FATAL_FAILURE(connected({mlx5_reusing_numbers()}));
  leave();
  const std::size_t with = mock_hca::objects();
  now += seconds(10);
  poll_both();
  EXPECT_EQ(mock_hca::objects(), with - 4) << "a queue pair and an identifier at each end";
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects + server.fabric->stats().unconfirmed_disconnects,
            0U);
}

// The connection has already been freed; AddressSanitizer would report a use of its memory.
TEST_P(Events, EventOfAQueuePairInTimewaitIsIgnored) {
  ASSERT_NO_FATAL_FAILURE(connected({mlx5_reusing_numbers()}));
  leave();
  mock_hca::raise_on_last_queue_pair(IBV_EVENT_COMM_EST);
  mock_hca::fail_last_queue_pair(IBV_EVENT_QP_FATAL);
  mock_hca::overrun_last_queue();
  poll_both();
  mock_hca::end_timewait();
  poll_both();
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
  leave(kNearAgain, kFarAgain);
}

TEST_P(Events, RemovedDeviceEndsTimewait) {
  ASSERT_NO_FATAL_FAILURE(connected({mlx5_reusing_numbers()}));
  leave();
  mock_hca::take_out(0);
  poll_both();
  expect_nothing_of_devices(0);
}

// If the final handshake message (RTU) is lost, the first data establishes the connection at the accepting
// side.
TEST_P(Events, DataEstablishesAConnectionWhoseRtuWasLost) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  mock_hca::lose_next_rtu();
  connect_both_ends(kAddress);
  EXPECT_TRUE(carries());
  mock_hca::give_up_handshakes();
  poll_both();
  EXPECT_TRUE(carries());
  EXPECT_EQ(server.count(Kind::connection_lost, kFar), 0U);
  leave();
  EXPECT_EQ(server.fabric->stats().unconfirmed_disconnects, 0U);
}

TEST_P(Events, CommEstEventEstablishesAConnectionWhoseRtuWasLost) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  mock_hca::lose_next_rtu();
  connect_both_ends(kAddress);
  mock_hca::raise_on_last_queue_pair(IBV_EVENT_COMM_EST);
  poll_both();
  mock_hca::give_up_handshakes();
  poll_both();
  EXPECT_TRUE(carries());
  leave();
}

TEST_P(Events, LostRtuWithoutDataEndsTheConnection) {
  open({mock_hca::mlx5()});
  listen(kAddress);
  mock_hca::lose_next_rtu();
  connect_both_ends(kAddress);
  poll_both();
  mock_hca::give_up_handshakes();
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::connect_timeout);
  EXPECT_EQ(take(client, Kind::connection_lost, kNear).reason, Reason::peer_closed);
  leave();
  now += seconds(20);
  poll_both();
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 0U);
}

TEST_P(Events, OverrunQueueEndsItsConnection) {
  ASSERT_NO_FATAL_FAILURE(connected());
  mock_hca::overrun_last_queue();
  EXPECT_TRUE(until([&] {
    return client.count(Kind::connection_lost, kNear) + server.count(Kind::connection_lost, kFar) != 0;
  }));
  leave();
}

// A type 2 window whose key the peer invalidated is bound again, so requests need no new window each.
TEST_P(Events, WindowsOfInvalidatedKeysAreReused) {
  ASSERT_NO_FATAL_FAILURE(connected());
  const auto region = client.fabric->allocate(4096);
  ASSERT_TRUE(region);
  std::size_t objects = 0;
  for (unsigned i = 0; i < 40; ++i) {
    const auto key = client.fabric->make_request_key(kNear, region->id, 0, 4096);
    ASSERT_TRUE(key && carries());
    server.fabric->post_receive(kFar, 1, 64);
    WorkRequest invalidation;
    invalidation.key = kFar;
    invalidation.op = WorkRequest::Op::send_inv;
    invalidation.rkey = key->rkey;
    ASSERT_EQ(server.fabric->post(std::span(&invalidation, 1)), 1U);
    EXPECT_EQ(take(client, Kind::key_invalidated, kNear).rkey, key->rkey);
    client.fabric->post_receive(kNear, 1, 64);
    client.fabric->release_key(key->id);
    if (i == 0) objects = mock_hca::objects();
  }
  EXPECT_EQ(mock_hca::objects(), objects);
  leave();
}

// A peer without receives blocks the send queue, including the bind of a window in it.
TEST_P(Events, WindowIsKeptUntilItsBindCompletes) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::hostile(mock_hca::mlx5())}));
  const auto region = client.fabric->allocate(4096);
  ASSERT_TRUE(region);
  for (unsigned i = 0; i < 7; ++i) {
    const auto key = client.fabric->make_request_key(kNear, region->id, 0, 4096);
    ASSERT_TRUE(key);
    client.fabric->release_key(key->id);
  }
  EXPECT_TRUE(carries());
  leave();
}

// The response proves that the bind executed, because the request was posted behind it. So the window may be
// freed although the bind's own completion is not known yet.
TEST_P(Events, ReleasedKeyOfAnAnsweredRequestGrantsNoAccess) {
  ASSERT_NO_FATAL_FAILURE(connected());
  const auto region = client.fabric->allocate(4096);
  const auto source = server.fabric->allocate(4096);
  ASSERT_TRUE(region && source);
  const auto key = client.fabric->make_request_key(kNear, region->id, 0, 4096);
  ASSERT_TRUE(key && carries());
  WorkRequest answer;
  answer.key = kFar;
  answer.op = WorkRequest::Op::write_imm;
  ASSERT_EQ(server.fabric->post(std::span(&answer, 1)), 1U);
  take(client, Kind::imm_received, kNear);
  client.fabric->release_key(key->id);
  source->bytes[0] = std::byte{9};
  answer.rkey = key->rkey;
  answer.remote_addr = key->remote_addr;
  answer.parts[0] = {source->id, 0, 1};
  answer.part_count = 1;
  ASSERT_EQ(server.fabric->post(std::span(&answer, 1)), 1U);
  take(server, Kind::connection_lost, kFar);
  EXPECT_EQ(region->bytes[0], std::byte{0});
  take(client, Kind::connection_lost, kNear);
  leave();
}

// With ack timeout 17 and 6 retries the device fails pending work after 3.76 s. Without pending work it
// reports nothing.
TEST_P(Events, DownPortEndsItsConnectionsAfterTheRetryTime) {
  ASSERT_NO_FATAL_FAILURE(connected());
  mock_hca::set_port(0, false);
  poll_both();
  EXPECT_TRUE(client.logged("its 1 connection(s) end when it stays so for 3.8 s"));
  now += milliseconds(3'700);
  poll_both();
  EXPECT_EQ(client.count(Kind::connection_lost, kNear) + server.count(Kind::connection_lost, kFar), 0U);
  now += milliseconds(100);
  EXPECT_EQ(take(client, Kind::connection_lost, kNear).reason, Reason::transport_error);
  EXPECT_EQ(take(server, Kind::connection_lost, kFar).reason, Reason::transport_error);
  EXPECT_TRUE(server.logged("port 1 has stayed down"));
  now += seconds(5);
  poll_both();
  EXPECT_EQ(
      std::count_if(server.log.begin(), server.log.end(),
                    [](const auto& line) { return line.second.find("stayed down") != std::string::npos; }),
      1);
  leave();
  mock_hca::set_port(0, true);
  poll_both();
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
  leave(kNearAgain, kFarAgain);
}

TEST_P(Events, PortThatReturnsInTimeEndsNoConnection) {
  ASSERT_NO_FATAL_FAILURE(connected());
  for (unsigned i = 0; i < 5; ++i) {
    mock_hca::set_port(0, false);
    poll_both();
    now += milliseconds(3'000);
    poll_both();
    mock_hca::set_port(0, true);
    poll_both();
  }
  now += seconds(60);
  poll_both();
  EXPECT_TRUE(carries());
  leave();
}

TEST_P(Events, DownPortEndsOnlyConnectionsOfItsDevice) {
  ASSERT_NO_FATAL_FAILURE(connected({mock_hca::mlx5(), second()}));
  ASSERT_EQ(server.fabric->listen({.source = {}, .destination = "192.0.2.2", .port = 0}), Errc::ok);
  client.fabric->connect(kNearAgain,
                         {.source = {}, .destination = "192.0.2.2", .port = server.fabric->listening_port()},
                         params(), {});
  SeenEvent request;
  ASSERT_TRUE(until([&] { return server.side->take(Kind::connect_requested, request); }));
  server.fabric->accept(request.request, kFarAgain, params(), {});
  take(client, Kind::connected, kNearAgain);
  mock_hca::set_port(1, false);
  poll_both();
  now += seconds(60);
  take(client, Kind::connection_lost, kNearAgain);
  take(server, Kind::connection_lost, kFarAgain);
  EXPECT_TRUE(carries());
  mock_hca::set_port(1, true);
  leave(kNearAgain, kFarAgain);
  leave();
}

TEST_P(Events, DownPortOfADeviceWithUnlimitedRetriesEndsNothing) {
  verbs::VerbsOptions options;
  options.retry_count = 7;
  open({mock_hca::rxe()}, options);
  listen(kAddress);
  connect_both_ends(kAddress);
  mock_hca::set_port(0, false);
  poll_both();
  EXPECT_TRUE(client.logged("wait, because the device never gives up"));
  now += seconds(600);
  poll_both();
  EXPECT_EQ(client.count(Kind::connection_lost, kNear), 0U);
  mock_hca::set_port(0, true);
  poll_both();
  EXPECT_TRUE(carries());
  leave();
}

TEST_P(Events, OtherDeviceEventsEndNoConnection) {
  ASSERT_NO_FATAL_FAILURE(connected());
  mock_hca::change_gids(0);
  mock_hca::set_port(0, false);
  mock_hca::set_port(0, true);
  mock_hca::raise_on_last_queue_pair(IBV_EVENT_COMM_EST);
  mock_hca::raise_on_last_queue_pair(IBV_EVENT_SQ_DRAINED);
  poll_both();
  EXPECT_TRUE(carries());
  EXPECT_TRUE(client.logged("port 1"));
  leave();
}

}  // namespace
}  // namespace rtrs::conformance::events_test
