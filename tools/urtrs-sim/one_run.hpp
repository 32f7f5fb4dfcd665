// The run that a command such as shrink or blame works on: a seed, a seed of a directed scenario, or a choice
// log.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "sim/world/world.hpp"
#include "tools/lib/trace/choice_log/isolated_run.hpp"

namespace rtrs::sim_tool {

struct RunName {
  std::uint64_t seed = 0;
  std::string scenario;   // id of a directed scenario; empty: random scenario of the seed
  bool no_fence = false;  // disable the fence of the scenario, but judge the run as if the fence were enabled
  std::string file;       // scenario file that was loaded; empty: none
  std::string choice_log;           // choices to start with instead of the seed
  bool over_tcp = false;            // see sim::Scenario
  sim::MakeNet make_net = nullptr;  // see sim::WorldOptions
};

class OneRun {
 public:
  OneRun() = default;
  OneRun(const OneRun&) = delete;
  OneRun& operator=(const OneRun&) = delete;
  // Returns false after printing an error.
  bool open(const RunName& name);

  sim::WorldOptions world;  // refers to `scenario`
  std::optional<sim::Scenario> scenario;
  tools::MakeChoice choice;  // repeats the choices of the run

 private:
  sim::ChoiceLog begin_;
};

// Plays the run. If no oracle fails, plays it once more and checks it against the specification, sets
// `specification`, and lets the runner check its later runs likewise.
tools::IsolatedResult play_judged(tools::IsolatedRunner& runner, const OneRun& run, bool& specification);

}  // namespace rtrs::sim_tool
