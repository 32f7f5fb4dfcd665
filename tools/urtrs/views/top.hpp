// What each path did between two looks at the server.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Rates from two answers to server.show that are `seconds` apart. A path that was not there before, or whose
// counters were reset, counts from 0.
Table rates(const nlohmann::json& before, const nlohmann::json& now, double seconds);

}  // namespace rtrs::admin
