// The steps to a violated rule, as a sequence diagram for human readers and as a file for replay.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

struct CounterExample {
  std::string configuration;
  bool fence = true;
  std::string rule;
  std::vector<sim::MachineStep> steps;  // steps from the root of the configuration
};

// Returns one line per step: the actor, the action, and the changes of paths and requests. The last line
// names the violated rule, if any. The steps must be possible from `root`.
std::string diagram(const sim::MachineWorld& root, const std::vector<sim::MachineStep>& steps);

// JSON; includes descriptions of the steps, which from_json() ignores.
std::string to_json(const CounterExample&);
struct ReadExample {
  std::optional<CounterExample> example;
  std::string error;  // error in the text
};
ReadExample from_json(const std::string& text);

// Result of playing the steps from the root of their configuration.
struct Replayed {
  bool possible = false;  // every step was enabled
  std::string broken;     // rule violated at the end (if stuck: found by a search from there); empty: none
  std::string diagram;
};
// The configuration of the example must exist.
Replayed replay(const CounterExample&);

}  // namespace rtrs::explore
