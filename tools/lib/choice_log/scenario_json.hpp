// A given (not drawn) scenario as JSON: part of a choice log file, so that a directed world is played again
// as it was.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>
#include <tl/expected.hpp>

#include "sim/cluster/scenario.hpp"

namespace rtrs::tools {

nlohmann::ordered_json scenario_json(const sim::Scenario&);
// The error says which member is wrong. What is missing has its default.
tl::expected<sim::Scenario, std::string> parse_scenario(const nlohmann::ordered_json&);

}  // namespace rtrs::tools
