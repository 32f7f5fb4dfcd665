// Directed scenarios: worlds that reproduce one race, which the id names. A seed varies delays, orders and
// the random parts of the scenario. Most scenarios are text (sim/scenarios/*.scenarios, compiled into the
// program). A few scenarios of block devices need more than the text format offers and are functions
// (sim/blocks).
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
  std::string_view id;     // "L01"; ids for the same race share a prefix: "R01a", "R01b"
  std::string_view title;  // action and expected result
  // At most one of `text` and `blocks` is set. If both are nullptr, the scenario plays streams
  // (sim/scenarios/stream_play.hpp).
  const ScenarioText* text = nullptr;
  const BlockScenario* blocks = nullptr;
};
// All scenarios: first those of add_scenarios(), then the others, ordered by id.
std::span<const Directed> directed_scenarios();
// Returns nullptr for an unknown id.
const Directed* find_directed(std::string_view id);
// Returns the simulated world of the scenario. `ChoiceSource` draws only its options, not what happens in it.
Scenario make_directed(const Directed&, ChoiceSource&);
// Makes the world play the block device scenario with this id. Returns false if there is none.
bool drive(Scenario&, std::string_view id);
// Adds the scenarios of a text, which may use existing setups. Affects the whole program, so call it before
// the other functions. Returns the error, beginning with the line number; empty on success, with the added
// ids in `ids`.
std::string add_scenarios(std::string_view text, std::vector<std::string>& ids);

}  // namespace rtrs::sim
