// Converts a directed scenario (which is not drawn at random) to and from JSON. A choice log file contains
// it, so that a directed world can be replayed exactly.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>
#include <tl/expected.hpp>

#include "sim/world/scenario.hpp"

namespace rtrs::tools {

nlohmann::ordered_json scenario_json(const sim::Scenario&);
// Fails with a message that names the invalid member. A missing member has its default value.
tl::expected<sim::Scenario, std::string> parse_scenario(const nlohmann::ordered_json&);

}  // namespace rtrs::tools
