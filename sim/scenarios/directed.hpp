// Directed scenarios: worlds that go straight to one race. The id says which; a seed varies delays, orders
// and what the scenario itself leaves open.
#pragma once
#include <span>
#include <string_view>

#include "sim/blocks/block_scenarios.hpp"
#include "sim/cluster/scenario.hpp"

namespace rtrs::sim {

struct Directed {
  std::string_view id;     // "L01"; those of one race begin alike: "R01a", "R01b"
  std::string_view title;  // what is done, and what must come of it
  // Changes what all directed worlds have in common; may be null.
  void (*shape)(Scenario&, ChoiceSource&);
  std::string_view script;  // lines of sim/cluster/script.hpp
  // Instead of shape and script: what is done to block devices. May be null.
  const BlockScenario* blocks = nullptr;
};
std::span<const Directed> directed_scenarios();
// Null for an unknown id.
const Directed* find_directed(std::string_view id);
// The world of this scenario for these choices.
Scenario make_directed(const Directed&, ChoiceSource&);

}  // namespace rtrs::sim
