// Memory shortage: a server without memory for a session, or for its recording, keeps running without that
// session. A block client that cannot be recorded does not start.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <new>

#include "conformance/bench/count_allocations.hpp"
#include "core/driver/block_client.hpp"
#include "core/driver/client.hpp"
#include "core/driver/server.hpp"
#include "core/record/live_records.hpp"
#include "core/record/recorder.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::bench {
namespace {

constexpr std::size_t kLarge = 4096;  // larger than any allocation of the simulated network

ClientOptions client_options() {
  ClientOptions options;
  options.session_name = "memory";
  options.session_uuid.bytes[0] = 1;
  options.path_uuids.resize(1);
  options.path_uuids[0].bytes[0] = 2;
  options.paths = {PathAddress{"n0.p0", "n1.p0", 1234}};
  return options;
}

// Connects a client while one server allocation, after `before` others, fails. Returns false if there were no
// more than `before` allocations.
bool survives_failure(unsigned before) {
  sim::ZeroChoice choice;
  sim::Network network;
  sim::SimFabric near(network, network.add_node(), choice);
  sim::SimFabric far(network, network.add_node(), choice);
  Recorder recorder(1024);
  Server server(clamp_to(ServerConfig{}, far.capabilities()), &recorder);
  EXPECT_EQ(server.listen(far, 0, PathAddress{"", "n1.p0", 1234}), Errc::ok);
  Client client(client_options(), nullptr);
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

// Counts the recorded events of a client's devices.
class Devices final : public trace::Listener {
 public:
  void on(const trace::Record& record) override {
    if (record.instance != kClientDevices) return;
    begun += record.event->name == "BeginClientDevices" ? 1 : 0;
    ended += record.event->name == "End" ? 1 : 0;
    if (begun == ended) outside += record.event->name == "End" ? 0 : 1;
  }
  unsigned begun = 0, ended = 0, outside = 0;
};

// Runs the client's first call, `first`, while one allocation fails after `before` others, then runs it
// again. Returns the number of failures: 0 if the call makes no more than `before` allocations.
template <class First>
unsigned begins_without_memory(unsigned before, First&& first) {
  sim::ZeroChoice choice;
  sim::Network network;
  sim::SimFabric fabric(network, network.add_node(), choice);
  Devices devices;
  Recorder recorder(1024);
  EXPECT_EQ(recorder.open_listener(devices, trace::Detail::machines), 0);
  // The recorder allocates at its first record; this record is made in advance.
  recorder.begin(0, InstanceId{100}, MachineKind::server_registry, ServerConfig{});
  BlockClientOptions options;
  options.session = client_options();
  BlockClient client(options, &recorder);
  unsigned failures = 0;
  fail_allocation(kLarge, before);
  try {
    first(client, fabric);
  } catch (const std::bad_alloc&) {
    ++failures;
  }
  fail_allocation(0, 0);
  if (failures != 0) first(client, fabric);
  EXPECT_EQ(devices.begun, failures + 1);
  EXPECT_EQ(devices.ended, failures);
  EXPECT_EQ(devices.outside, 0U);
  return failures;
}

TEST(NoMemory, MapWithoutRecorderMemoryFailsAndCanBeRepeated) {
  const auto map = [](BlockClient& client, Fabric& fabric) {
    EXPECT_EQ(client.map(fabric, 1, "disk", wire::rnbd::AccessMode::read_write).error, 0);
    EXPECT_EQ(client.mapped_count(), 1U);
  };
  unsigned failures = 0;
  while (failures < 64 && begins_without_memory(failures, map) != 0) ++failures;
  EXPECT_GE(failures, 2U) << "two copies of the state for the recorder";
}

TEST(NoMemory, OpenWithoutRecorderMemoryFails) {
  const auto open = [](BlockClient& client, Fabric& fabric) {
    EXPECT_EQ(client.open(fabric, 1), Errc::ok);
    EXPECT_EQ(client.session().paths().size(), 1U);
  };
  for (unsigned before = 0; before < 2; ++before) EXPECT_EQ(begins_without_memory(before, open), 1U);
}

}  // namespace
}  // namespace rtrs::bench
