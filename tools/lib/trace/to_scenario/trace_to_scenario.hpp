// Searches for a simulated world that fails like a recorded trace.
#pragma once
#include <functional>
#include <string>

#include "tools/lib/trace/choice_log/shrink_run.hpp"
#include "tools/lib/trace/to_scenario/infer.hpp"

namespace rtrs::tools {

struct ScenarioSearch {
  // Number of seeds per guess; a seed determines delays and orders that are not in the trace.
  std::uint64_t seeds = 200;
  double seconds = 120;  // time limit for everything; the search gets half of it
  std::function<void(const std::string& what)> progress;  // may be empty
  // If not empty: the failure is that these requests of a client are not answered.
  std::vector<trace::Unanswered> unanswered;
};
struct FoundScenario {
  bool fails = false;
  std::string words;  // description of the failing guess
  std::uint64_t seed = 0;
  sim::Scenario scenario;
  tools::ShrunkRun run;
  std::uint64_t tried = 0;
  std::string error;   // if not empty: reason why no world could be tried
  bool sound = false;  // no world fails, and the trace has no failure either
  std::string why;     // reason why no world fails
};
// Searches for a world that fails. Worlds are judged by the oracles of the simulator, their traces by the
// rules of `urtrs-replay check`.
FoundScenario find_scenario(const LoadedTrace&, const ScenarioSearch&);

}  // namespace rtrs::tools
