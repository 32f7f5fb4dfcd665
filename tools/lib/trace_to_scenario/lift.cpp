#include "tools/lib/trace_to_scenario/lift.hpp"

#include <chrono>
#include <numeric>

#include "tools/lib/minimize/last_step.hpp"
#include "tools/lib/minimize/rerun.hpp"

namespace rtrs::tool {

namespace {

// The first client that ever connected.
std::vector<Guess> guesses_of(const LoadedTrace& trace) {
  for (const MachineTrace& machine : trace.machines) {
    const auto* client = std::get_if<MachineInputs<ClientConfig, ClientInput>>(&machine.machine);
    if (client == nullptr) continue;
    auto guesses = infer(*client);
    if (!guesses.empty()) return guesses;
  }
  return {};
}

// Why no world fails.
void explain(const LoadedTrace& trace, Lifted& lifted) {
  const tools::TraceScratch scratch;
  Rerun rerun(scratch.prefix(), judge_by_check());
  for (const MachineTrace& machine : trace.machines) {
    const LastStep last(machine);
    if (last.differs() || last.hidden_since()) {
      lifted.why = "this core does not do what the trace says" +
                   (last.differs() ? " (" + last.seen() + ")" : std::string()) +
                   ": lift it with the urtrs-replay of the build that recorded it";
      return;
    }
    if (scratch.prefix().empty() || !rerun.works()) continue;
    Inputs all(machine.size());
    std::iota(all.begin(), all.end(), 0U);
    if (const auto failing = rerun.run(machine, all)) {
      lifted.why = "this core fails again on these inputs (" + failing->failure +
                   "), but no world made of them does: what it takes is not in the trace of a client";
      return;
    }
  }
  lifted.sound = true;
  lifted.why = "nothing is wrong with the trace: it replays, and its client keeps every rule";
}

bool is_not_played(const tools::IsolatedResult& result) {
  return result.signature.find("(not played)") != std::string::npos;
}

}  // namespace

Lifted lift(const LoadedTrace& trace, const LiftOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto elapsed = [began] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  Lifted lifted;
  const std::vector<Guess> guesses = guesses_of(trace);
  if (guesses.empty()) {
    lifted.error = "no client session of this trace ever connected; take the trace of a client";
    return lifted;
  }
  tools::IsolatedRunner runner;
  if (!runner.works()) {
    lifted.error = "no memory to share with the runs";
    return lifted;
  }
  runner.ask_specification();
  // The guesses side by side: a faithful one that never fails must not take all the time.
  for (std::uint64_t seed = 0; seed < options.seeds && !lifted.fails; ++seed) {
    for (const Guess& guess : guesses) {
      if (elapsed() > options.seconds / 2) break;
      if (options.progress) options.progress("seed " + std::to_string(seed) + ", " + guess.words);
      sim::WorldOptions world;
      world.seed = seed;
      world.scenario = &guess.scenario;
      const tools::MakeChoice choice = [seed] { return std::make_unique<sim::SeededChoice>(seed); };
      ++lifted.tried;
      const tools::IsolatedResult result = runner.run(world, choice);
      if (!result.failed || is_not_played(result)) continue;
      lifted.fails = true;
      lifted.words = guess.words;
      lifted.seed = seed;
      lifted.scenario = guess.scenario;
      tools::ShrinkRunOptions shrinking;
      shrinking.seconds = options.seconds - elapsed();
      if (options.progress)
        shrinking.progress = [&](const sim::TapeSize& size, std::uint64_t runs) {
          options.progress(std::to_string(runs) + " runs, " + sim::to_text(size));
        };
      world.scenario = &lifted.scenario;
      lifted.run = shrink_run(runner, world, choice, shrinking);
      break;
    }
  }
  if (!lifted.fails) explain(trace, lifted);
  return lifted;
}

}  // namespace rtrs::tool
