// `urtrs map`, `unmap`, `remap` and `mapping` send requests to urtrs-mapd.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

bool is_mapping(const Command& command);
// Executes the command. Returns the exit code; for `map --run`, the exit code of the command that was run.
int run_mapping(const Command& command);

// Converts a reply to device.list to a table of devices.
Table mappings(const nlohmann::json& listed, const std::string& session);

}  // namespace rtrs::admin
