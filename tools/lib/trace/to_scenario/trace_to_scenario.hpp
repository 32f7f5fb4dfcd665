// From a recorded trace to a failing world of the simulator.
#pragma once
#include <functional>
#include <string>

#include "tools/lib/trace/choice_log/shrink_run.hpp"
#include "tools/lib/trace/to_scenario/infer.hpp"

namespace rtrs::tools {

struct ScenarioSearch {
  std::uint64_t seeds = 200;  // of each guess: the delays and orders that no trace tells
  double seconds = 120;       // at most, half of it for the search
  std::function<void(const std::string& what)> progress;  // may be empty
};
struct FoundScenario {
  bool fails = false;
  std::string words;  // of the guess that fails
  std::uint64_t seed = 0;
  sim::Scenario scenario;
  tools::ShrunkRun run;
  std::uint64_t tried = 0;
  std::string error;   // not empty: nothing could be tried
  bool sound = false;  // where none fails: nothing is wrong with the trace either
  std::string why;     // where none fails, in words
};
// Worlds are judged by the oracles of the simulator and by what `check` says of their traces.
FoundScenario find_scenario(const LoadedTrace&, const ScenarioSearch&);

}  // namespace rtrs::tools
