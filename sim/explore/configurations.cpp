#include "sim/explore/configurations.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "sim/explore/search.hpp"

namespace rtrs::explore {

using sim::MachineConfig;
using sim::MachineStep;
using sim::MachineWorld;

MachineConfig without_fence(MachineConfig config) {
  config.server.extensions = wire::Extensions::none;
  return config;
}

namespace {

struct Shape {
  std::uint16_t paths, depth, ios, blocks, cuts, early, operators;
};

MachineConfig machines(const Shape& shape) {
  MachineConfig config = sim::small_machine_config(shape.depth);
  config.paths = shape.paths;
  config.ios = shape.ios;
  config.blocks = shape.blocks;
  config.cuts = shape.cuts;
  config.early_deadlines = shape.early;
  config.operators = shape.operators;
  return config;
}

// Configurations with two or more paths, searched with and without the fence.
Configuration failover(const char* name, const char* text, const Shape& shape, unsigned connected_first,
                       std::uint64_t states) {
  return {name, text, machines(shape), connected_first, states, true, true, {}};
}

Configuration planted(const char* name, const char* text, sim::MachinePlant plant, const char* rule) {
  Configuration one{name, text, machines({2, 2, 2, 1, 1, 0, 0}), 2, 2'000, false, false, rule};
  one.machines.plant = plant;
  return one;
}

// A client of a kernel server, without a fence, that waits until the path reconnects instead of replaying at
// once.
Configuration patient() {
  Configuration one{"patient",
                    "kernel server, client waits for the path: 1 cut, 1 early deadline",
                    machines({2, 2, 2, 1, 1, 1, 0}),
                    2,
                    10'000,
                    false,
                    false,
                    {}};
  one.machines = without_fence(one.machines);
  one.machines.client.kernel_peer = UnfencedReplay::wait;
  return one;
}

Configuration closing() {
  Configuration one{"closing",
                    "2 writes of 2 blocks, 1 cut, closed at any time",
                    machines({2, 2, 2, 2, 1, 0, 0}),
                    2,
                    21'000,
                    false,
                    false,
                    {}};
  one.machines.close = true;
  return one;
}

// The network loses connect requests and accepts while one end waits for them.
Configuration losing() {
  Configuration one = failover("losses", "from nothing: 2 writes of a block, 2 lost connect messages, 1 cut",
                               {2, 2, 2, 1, 1, 0, 0}, 0, 200'000);
  one.machines.losses = 2;
  return one;
}

// The requests of each block alternate: a write, a READ, and so on.
Configuration reading(const char* name, const char* text, const Shape& shape, std::uint64_t states) {
  Configuration one = failover(name, text, shape, 2, states);
  one.machines.reads = 0b1010;
  return one;
}

// No block is written twice, so that no update can be lost even without a fence.
Configuration mixed() {
  Configuration one = reading("mixed", "a write and a READ of each of 2 blocks, 1 cut, 1 early deadline",
                              {2, 2, 4, 2, 1, 1, 0}, 182'000);
  one.fence_off = one.failover = false;
  return one;
}

// The server crashes once, at any time.
Configuration crashing(const char* name, const char* text, const Shape& shape, unsigned connected_first,
                       std::uint64_t states) {
  Configuration one = failover(name, text, shape, connected_first, states);
  one.machines.reads = 0b1010;
  one.machines.crashes = 1;
  return one;
}

// The numbers of a Shape: paths, permits, writes, blocks, cuts, deadlines that expire early, operator
// actions.
std::vector<Configuration> all() {
  return {
      failover("small", "from nothing: 2 writes of a block, 1 cut", {2, 2, 2, 1, 1, 0, 0}, 0, 17'000),
      failover("cold", "from nothing: 2 writes of a block, 2 cuts", {2, 2, 2, 1, 2, 0, 0}, 0, 500'000),
      failover("timers", "2 writes of a block, 1 cut, 2 early deadlines", {2, 2, 2, 1, 1, 2, 0}, 2, 130'000),
      failover("cuts", "2 writes of a block, 3 cuts", {2, 2, 2, 1, 3, 0, 0}, 2, 240'000),
      failover("permit", "1 permit, 3 writes of a block, 2 cuts", {2, 1, 3, 1, 2, 0, 0}, 2, 186'000),
      failover("blocks", "4 writes of 2 blocks, 2 cuts", {2, 2, 4, 2, 2, 0, 0}, 2, 2'000'000),
      failover("operator", "2 writes of a block, 1 cut, 1 path ended by an operator", {2, 2, 2, 1, 1, 0, 1},
               2, 334'000),
      failover("paths", "3 paths, 2 writes of a block, 1 cut", {3, 2, 2, 1, 1, 0, 0}, 3, 4'000),
      failover("contested", "3 paths, 1 permit, 2 writes of a block, 2 cuts", {3, 1, 2, 1, 2, 0, 0}, 3,
               200'000),
      {"one-path",
       "1 path, 4 writes of 2 blocks, 2 cuts",
       machines({1, 2, 4, 2, 2, 0, 0}),
       1,
       72'000,
       true,
       false,
       {}},
      losing(),
      reading("reads", "a write, a READ and a write of a block, 2 cuts", {2, 2, 3, 1, 2, 0, 0}, 200'000),
      mixed(),
      reading("late-reads", "1 permit, two writes and two READs of a block in turn, 1 cut, 2 early deadlines",
              {2, 1, 4, 1, 1, 2, 0}, 400'000),
      crashing("crash", "a write, a READ and a write of a block, 1 cut, the server crashes once",
               {2, 2, 3, 1, 1, 0, 0}, 2, 200'000),
      crashing("cold-crash",
               "from nothing: a write, a READ and a write of a block, 1 cut, the server crashes once",
               {2, 2, 3, 1, 1, 0, 0}, 0, 200'000),
      patient(),
      closing(),
      planted("planted-fence", "planted: a server that answers fences without draining",
              sim::MachinePlant::fence_too_early, sim::kLostUpdate),
      planted("planted-drain", "planted: a broken connection is never drained at the server",
              sim::MachinePlant::never_drained, kStuck),
  };
}

}  // namespace

const std::vector<Configuration>& configurations() {
  static const std::vector<Configuration> kAll = all();
  return kAll;
}

const Configuration* configuration(const std::string& name) {
  const auto found = std::find_if(configurations().begin(), configurations().end(),
                                  [&](const Configuration& one) { return one.name == name; });
  return found == configurations().end() ? nullptr : &*found;
}

MachineWorld root_of(const Configuration& configuration, bool fence) {
  MachineWorld world(fence ? configuration.machines : without_fence(configuration.machines));
  while (world.client().connected_paths() < configuration.connected_first) {
    const auto next = world.enabled();
    const auto calm = std::find_if(next.begin(), next.end(), [](const MachineStep& step) {
      return step.kind != MachineStep::Kind::submit && !step.is_fault();
    });
    RTRS_ASSERT(calm != next.end());
    world.apply(*calm);
  }
  return world;
}

}  // namespace rtrs::explore
