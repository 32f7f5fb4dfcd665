// Fuzzes the model of client and server with random sequences of events, longer than an exhaustive search can
// reach. No rule may be broken, and once faults stop, every request must complete.
#include "sim/model/machine_world.hpp"

#include "conformance/fuzz/draws.hpp"
#include "conformance/fuzz/fuzz.hpp"
#include "conformance/fuzz/state_pairs.hpp"

using namespace rtrs;
using sim::MachineStep;
using sim::MachineWorld;

namespace {

sim::MachineConfig drawn_config(fuzz::Draws& draws) {
  sim::MachineConfig config = sim::small_machine_config(static_cast<std::uint16_t>(1 + draws.below(3)));
  config.paths = static_cast<std::uint16_t>(1 + draws.below(3));
  config.client.con_num = static_cast<std::uint16_t>(2 + draws.below(2));
  config.blocks = static_cast<std::uint16_t>(1 + draws.below(3));
  config.ios = static_cast<std::uint16_t>(config.blocks * (1 + draws.below(4)));
  config.cuts = 6;
  config.early_deadlines = 4;
  config.losses = 3;
  config.operators = 3;
  config.close = draws.rarely(4);
  // Minimal send queues, so that requests and responses wait for room.
  if (draws.rarely(2)) config.client.send_depth = config.server.send_depth = 8;
  return config;
}

std::uint64_t abstract(const MachineWorld& world) {
  std::uint64_t state = world.acknowledged() + 16 * world.client().permits_used();
  for (unsigned path = 0; path < 3; ++path)
    state = state * 8 + static_cast<std::uint64_t>(world.client().path(path).state());
  for (unsigned path = 0; path < 3 && world.sessions() > 0; ++path)
    state = state * 8 + static_cast<std::uint64_t>(world.session(0).path_state(path));
  return state;
}

void step(MachineWorld& world, const MachineStep& step, fuzz::StatePairs& pairs) {
  world.apply(step);
  pairs.reached(abstract(world), static_cast<std::uint64_t>(step.kind));
  if (world.violation() == nullptr) return;
  std::fprintf(stderr, "broken: %s\n", world.violation());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Draws draws(data, size);
  fuzz::StatePairs pairs;
  MachineWorld world(drawn_config(draws));
  while (draws.left()) {
    const auto steps = world.enabled();
    if (steps.empty()) break;
    step(world, steps[draws.below(static_cast<std::uint32_t>(steps.size()))], pairs);
  }
  for (unsigned calm = 0; calm < 5'000; ++calm) {
    const auto steps = world.enabled();
    if (steps.empty() || steps.front().is_fault()) break;
    step(world, steps.front(), pairs);
  }
  RTRS_FUZZ_CHECK(world.finished());
  return 0;
}
