// Hot removal and return of a device, for each way in which the removal may be reported.
#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::removal_test {
namespace {

using Kind = SeenEvent::Kind;
using mock_hca::Told;

struct Way {
  const char* name;
  mock_hca::Profile (*profile)();
  Told told;
};
std::string param_name(const ::testing::TestParamInfo<Way>& info) {
  return info.param.name;
}
mock_hca::Profile flushing() {
  mock_hca::Profile one = mock_hca::mlx5();
  one.flushes_when_taken_out = true;
  return one;
}
class Removal : public TwoEnds, public ::testing::WithParamInterface<Way> {
 protected:
  // Uses the device: regions, keys of each kind, and a connection with work in flight.
  void use_device() {
    open({GetParam().profile()});
    listen("192.0.2.1");
    port = server.fabric->listening_port();
    connect_both_ends("192.0.2.1");
    ASSERT_TRUE(carries());
    const auto memory = server.fabric->allocate(8192);
    ASSERT_TRUE(memory && client.fabric->allocate(4096));
    ASSERT_TRUE(server.fabric->make_revocable_key(kFar, memory->id, 0, 4096));
    ASSERT_TRUE(server.fabric->make_key(memory->id, 4096, 4096));
    if (server.fabric->capabilities().per_io_keys) {
      ASSERT_TRUE(server.fabric->make_request_key(kFar, memory->id, 0, 4096));
    }
    poll_both();
  }
  std::uint16_t port = 0;
};

INSTANTIATE_TEST_SUITE_P(MockHca, Removal,
                         ::testing::Values(Way{"fatal", mock_hca::mlx5, Told::fatal},
                                           Way{"removal", mock_hca::mlx5, Told::removal},
                                           Way{"fatal_first", mock_hca::mlx5, Told::fatal_first},
                                           Way{"removal_first", mock_hca::mlx5, Told::removal_first},
                                           Way{"flushes_fatal", flushing, Told::fatal},
                                           Way{"flushes_removal", flushing, Told::removal},
                                           Way{"rxe_removal", mock_hca::rxe, Told::removal},
                                           Way{"rxe_fatal_first", mock_hca::rxe, Told::fatal_first},
                                           Way{"bnxt_re_removal_first", mock_hca::bnxt_re,
                                               Told::removal_first}),
                         param_name);

TEST_P(Removal, RemovedDeviceIsFreedAndUsedAgainAfterItsReturn) {
  ASSERT_NO_FATAL_FAILURE(use_device());
  mock_hca::take_out(0, GetParam().told);
  take(client, Kind::connection_lost, kNear);
  take(server, Kind::connection_lost, kFar);
  leave();
  expect_nothing_of_devices(0);
  EXPECT_EQ(client.fabric->stats().removed_devices, 1U);
  EXPECT_EQ(server.fabric->stats().removed_devices, 1U);
  EXPECT_FALSE(server.logged("RDMAV_ALLOW_DISASSOC_DESTROY"));

  mock_hca::put_back(0);
  now += seconds(1);
  poll_both();
  ASSERT_EQ(server.fabric->listening_port(), port) << "clients reconnect to this port";
  connect_both_ends("192.0.2.1", kNearAgain, kFarAgain);
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
  leave(kNearAgain, kFarAgain);
  EXPECT_EQ(client.fabric->stats().removed_devices, 1U);
}

TEST_P(Removal, ConnectFailsWhileTheDeviceIsRemoved) {
  ASSERT_NO_FATAL_FAILURE(use_device());
  mock_hca::take_out(0, GetParam().told);
  poll_both();
  leave();
  now += seconds(5);
  poll_both();
  client.fabric->connect(kNearAgain, {.source = {}, .destination = "192.0.2.1", .port = port}, params(), {});
  take(client, Kind::connect_failed, kNearAgain);
  client.fabric->disconnect(kNearAgain);
  poll_both();
  expect_nothing_of_devices(0);
}

// The removal may be reported at any step of the handshake.
TEST_P(Removal, UnestablishedConnectionEndsOnce) {
  for (unsigned steps = 0; steps < 12; ++steps) {
    open({GetParam().profile()});
    listen("192.0.2.1");
    client.fabric->connect(
        kNear, {.source = {}, .destination = "192.0.2.1", .port = server.fabric->listening_port()}, params(),
        {});
    bool accepted = false;
    const auto step = [&] {
      poll(client), poll(server);
      SeenEvent request;
      if (!server.side->take(Kind::connect_requested, request)) return;
      server.fabric->accept(request.request, kFar, params(), {});
      accepted = true;
    };
    for (unsigned i = 0; i < steps; ++i) step();
    mock_hca::take_out(0, GetParam().told);
    for (unsigned i = 0; i < 80; ++i) step();
    EXPECT_EQ(client.count(Kind::connect_failed, kNear) + client.count(Kind::connection_lost, kNear), 1U);
    EXPECT_EQ(server.count(Kind::connection_lost, kFar), accepted ? 1U : 0U);
    client.fabric->disconnect(kNear);
    if (accepted) server.fabric->disconnect(kFar);
    poll_both();
    expect_nothing_of_devices(0);
    close();
  }
}

class GuestRemoval : public TwoEnds {};

// The device is removed without any event. The connections of the device must be reported as lost, and later
// calls on the device must fail.
TEST_F(GuestRemoval, RemovalWithoutAnEventIsDetected) {
  for (const bool by_errors : {false, true}) {
    open({by_errors ? flushing() : mock_hca::mlx5()});
    listen("192.0.2.1");
    connect_both_ends("192.0.2.1");
    ASSERT_TRUE(carries());
    if (!by_errors) mock_hca::raise_on_last_queue_pair(IBV_EVENT_QP_FATAL);
    mock_hca::take_out(0, Told::nobody);
    EXPECT_TRUE(until([&] {
      return client.fabric->stats().removed_devices + server.fabric->stats().removed_devices ==
             (by_errors ? 2U : 1U);
    }));
    close();
  }
}

TEST_F(GuestRemoval, UserSettingOfTheVariableIsKept) {
  ::setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "0", 1);
  verbs::expect_removal();
  EXPECT_STREQ(std::getenv("RDMAV_ALLOW_DISASSOC_DESTROY"), "0");
  ::unsetenv("RDMAV_ALLOW_DISASSOC_DESTROY");
  verbs::expect_removal();
  EXPECT_STREQ(std::getenv("RDMAV_ALLOW_DISASSOC_DESTROY"), "1");
}

TEST_F(GuestRemoval, LeakOfRemovedObjectsIsLogged) {
  expects_removal = false;
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  mock_hca::take_out(0);
  take(client, Kind::connection_lost, kNear);
  take(server, Kind::connection_lost, kFar);
  leave();
  EXPECT_TRUE(client.logged("RDMAV_ALLOW_DISASSOC_DESTROY=1 was not in its environment"));
  close();
  mock_hca::reset({});
  const std::vector<std::string> problems = mock_hca::problems();
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("objects were leaked"), std::string::npos) << problems[0];
}

}  // namespace
}  // namespace rtrs::conformance::removal_test
