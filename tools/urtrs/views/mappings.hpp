// `urtrs map`, `unmap`, `remap` and `mapping`: requests to urtrs-mapd.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

bool is_mapping(const Command& command);
// Returns the exit code; for `map --run`, the exit code of the command.
int run_mapping(const Command& command);

// Table of the devices in a reply to device.list.
Table mappings(const nlohmann::json& listed, const std::string& session);

}  // namespace rtrs::admin
