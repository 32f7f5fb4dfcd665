// Directed scenarios: worlds that go straight to one race. The id says which; a seed varies delays, orders
// and what the scenario itself leaves open. They are text (sim/scenarios/*.scenarios, which are in the
// program); few of block devices need more than the words of the text and are functions (sim/blocks).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/blocks/block_scenarios.hpp"
#include "sim/scenarios/scenario_text.hpp"
#include "sim/world/scenario.hpp"

namespace rtrs::sim {

struct Directed {
  std::string_view id;     // "L01"; those of one race begin alike: "R01a", "R01b"
  std::string_view title;  // what is done, and what must come of it
  // One of them is not null; without both it is the play of streams (sim/streams).
  const ScenarioText* text = nullptr;
  const BlockScenario* blocks = nullptr;
};
// In the order of their ids, after those that add_scenarios() added.
std::span<const Directed> directed_scenarios();
// Null for an unknown id.
const Directed* find_directed(std::string_view id);
// The world of this scenario for these choices, which are not those of the run.
Scenario make_directed(const Directed&, ChoiceSource&);
// Lets a scenario of block devices drive the world; false: the id is not of one.
bool drive(Scenario&, std::string_view id);
// Adds those of a text, which may use the setups that are there; for the whole program, before it looks at
// others. Why it cannot, from the line on; empty: it has, and `ids` are those that it added.
std::string add_scenarios(std::string_view text, std::vector<std::string>& ids);

}  // namespace rtrs::sim
