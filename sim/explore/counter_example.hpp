// The way to a broken rule: as a sequence diagram for people, and as a file that can be played again.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

struct CounterExample {
  std::string configuration;  // its name
  bool fence = true;
  std::string rule;
  std::vector<sim::MachineStep> steps;  // from the root of the configuration
};

// One line a step: who does what, and what it changes for paths and requests. The steps must be possible from
// `root`; ends with the rule that is broken there, if one is.
std::string diagram(const sim::MachineWorld& root, const std::vector<sim::MachineStep>& steps);

// JSON; the steps with their words, which reading ignores.
std::string to_json(const CounterExample&);
struct ReadExample {
  std::optional<CounterExample> example;
  std::string error;  // what is wrong with the text
};
ReadExample from_json(const std::string& text);

// What became of the steps from the root of their configuration.
struct Replayed {
  bool possible = false;  // every step could be taken
  std::string broken;  // rule that is broken at the end, of those that end stuck after a search; empty: none
  std::string diagram;
};
// The configuration must exist.
Replayed replay(const CounterExample&);

}  // namespace rtrs::explore
