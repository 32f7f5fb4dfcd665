// A server that has no memory for a session, or for recording it, goes on without that session.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "conformance/bench/count_allocations.hpp"
#include "core/driver/client.hpp"
#include "core/driver/server.hpp"
#include "core/record/recorder.hpp"
#include "sim/network/sim_fabric.hpp"

namespace rtrs::bench {
namespace {

constexpr std::size_t kLarge = 4096;  // what the simulated network allocates is smaller

// A client connects while one allocation of the server fails. False when there are no more than `before`.
bool survives_failure(unsigned before) {
  sim::CalmChoice choice;
  sim::Network network;
  sim::SimFabric near(network, network.add_node(), choice);
  sim::SimFabric far(network, network.add_node(), choice);
  Recorder recorder(1024);
  Server server(clamp_to(ServerConfig{}, far.capabilities()), &recorder);
  EXPECT_EQ(server.listen(far, 0, PathAddress{"", "n1.p0", 1234}), Errc::ok);
  ClientOptions options;
  options.session_name = "memory";
  options.session_uuid.bytes[0] = 1;
  options.path_uuids.resize(1);
  options.path_uuids[0].bytes[0] = 2;
  options.paths = {PathAddress{"n0.p0", "n1.p0", 1234}};
  Client client(options, nullptr);
  EXPECT_EQ(client.open(near, 0), Errc::ok);
  bool failed = false;
  const auto turn = [&] {
    std::array<IoCompletion, 16> done;
    client.poll(near, network.now(), done);
    std::array<ServerEvent, 16> events;
    if (!failed) fail_allocation(kLarge, before);
    server.poll(far, network.now(), events);
    failed = fail_allocation(0, 0) || failed;
    if (!network.has_events(0) && !network.has_events(1)) network.step(choice);
  };
  for (unsigned round = 0; round < 1000 && !failed; ++round) turn();
  for (unsigned round = 0; round < 100 && failed; ++round) turn();
  return failed;
}

TEST(NoMemory, EveryLargeAllocationOfANewSessionMayFail) {
  unsigned failures = 0;
  while (failures < 64 && survives_failure(failures)) ++failures;
  EXPECT_GE(failures, 4U) << "session, two copies of its state for the recorder, events";
}

}  // namespace
}  // namespace rtrs::bench
