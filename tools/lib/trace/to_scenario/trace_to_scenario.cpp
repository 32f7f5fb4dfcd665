#include "tools/lib/trace/to_scenario/trace_to_scenario.hpp"

#include <chrono>
#include <numeric>

#include "tools/lib/trace/minimize/last_step.hpp"
#include "tools/lib/trace/minimize/rerun.hpp"

namespace rtrs::tools {

namespace {

// Returns the device state machine of the client session at index `session`, which is the `number`-th client
// session; nullptr if it has none. The recording of a device machine starts with the first mapped device,
// which can be earlier than that of its session. If some session has no devices, the order in the trace
// decides which session a device machine belongs to.
const ClientDevicesInputs* devices_of(const LoadedTrace& trace, std::size_t session, std::size_t number) {
  std::vector<const ClientDevicesInputs*> all;
  std::size_t sessions = 0;
  const ClientDevicesInputs* next = nullptr;
  for (std::size_t at = 0; at < trace.machines.size(); ++at) {
    if (std::holds_alternative<ClientInputs>(trace.machines[at].machine)) ++sessions;
    const auto* devices = std::get_if<ClientDevicesInputs>(&trace.machines[at].machine);
    if (devices == nullptr) continue;
    all.push_back(devices);
    if (next == nullptr && at > session && sessions == number + 1) next = devices;
  }
  return all.size() == sessions ? all[number] : next;
}

// Returns the guesses for the first client that ever connected, or that has an unanswered request.
std::vector<Guess> guesses_of(const LoadedTrace& trace, const std::vector<trace::Unanswered>& unanswered) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < trace.machines.size(); ++at) {
    const auto* client = std::get_if<ClientInputs>(&trace.machines[at].machine);
    if (client == nullptr) continue;
    auto guesses = unanswered.empty() ? infer(*client, devices_of(trace, at, number++))
                                      : infer_hang(*client, trace.machines[at].instance, unanswered);
    if (!guesses.empty()) return guesses;
  }
  return {};
}

// Sets `found.why`, the reason why no world fails.
void explain(const LoadedTrace& trace, FoundScenario& found) {
  const tools::TraceScratch scratch;
  Rerun rerun(scratch.prefix(), judge_by_check());
  for (const MachineTrace& machine : trace.machines) {
    const LastStep last(machine);
    if (last.differs() || last.hidden_since()) {
      found.why = "this core behaves differently from the trace" +
                  (last.differs() ? " (" + last.seen() + ")" : std::string()) +
                  ": search it with the urtrs-replay of the build that recorded it";
      return;
    }
    if (scratch.prefix().empty() || !rerun.works()) continue;
    Inputs all(machine.size());
    std::iota(all.begin(), all.end(), 0U);
    if (const auto failing = rerun.run(machine, all)) {
      found.why = "this core fails again on these inputs (" + failing->failure +
                  "), but no world made of them does: the cause is not in the trace of a client";
      return;
    }
  }
  found.sound = true;
  found.why = "nothing is wrong with the trace: it replays, and its client keeps every rule";
}

bool is_not_played(const tools::IsolatedResult& result) {
  return result.signature.find("(not played)") != std::string::npos;
}

// Returns true if the world fails as wanted: a rule is broken or, for a hang, only the last step, which waits
// for all requests, did not come.
bool fails_as_wanted(const tools::IsolatedResult& result, bool hang) {
  if (!result.failed) return false;
  return hang ? is_not_played(result) && result.seen.find("never came: completed") != std::string::npos
              : !is_not_played(result);
}

}  // namespace

FoundScenario find_scenario(const LoadedTrace& trace, const ScenarioSearch& options) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto elapsed = [began] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  FoundScenario found;
  const std::vector<Guess> guesses = guesses_of(trace, options.unanswered);
  if (guesses.empty()) {
    found.error =
        options.unanswered.empty()
            ? "no client session of this trace ever connected; use the trace of a client"
            : "no client session of this trace has an unanswered request; use the trace of a client";
    return found;
  }
  tools::IsolatedRunner runner;
  if (!runner.works()) {
    found.error = "no memory to share with the runs";
    return found;
  }
  runner.ask_specification();
  // Takes the guesses in turn for each seed, so that a guess that never fails does not use up the time.
  for (std::uint64_t seed = 0; seed < options.seeds && !found.fails; ++seed) {
    for (const Guess& guess : guesses) {
      if (elapsed() > options.seconds / 2) break;
      if (options.progress) options.progress("seed " + std::to_string(seed) + ", " + guess.words);
      sim::WorldOptions world;
      world.seed = seed;
      world.scenario = &guess.scenario;
      // A limit for worlds of this size: a recorded input or action comes from a few events at most.
      world.max_events += 100 * trace.records;
      const tools::MakeChoice choice = [seed] { return std::make_unique<sim::SeededChoice>(seed); };
      ++found.tried;
      const tools::IsolatedResult result = runner.run(world, choice);
      if (!fails_as_wanted(result, !options.unanswered.empty())) continue;
      found.fails = true;
      found.words = guess.words;
      found.seed = seed;
      found.scenario = guess.scenario;
      tools::ShrinkRunOptions shrinking;
      shrinking.seconds = options.seconds - elapsed();
      if (!options.unanswered.empty())
        shrinking.accepts = [](const tools::IsolatedResult& shorter) {
          return fails_as_wanted(shorter, true);
        };
      if (options.progress)
        shrinking.progress = [&](const sim::LogSize& size, std::uint64_t runs) {
          options.progress(std::to_string(runs) + " runs, " + sim::to_text(size));
        };
      world.scenario = &found.scenario;
      found.run = shrink_run(runner, world, choice, shrinking);
      break;
    }
  }
  if (!found.fails && options.unanswered.empty()) explain(trace, found);
  if (!found.fails && !options.unanswered.empty())
    found.why = "in each world all requests were answered before the trace ended";
  return found;
}

}  // namespace rtrs::tools
