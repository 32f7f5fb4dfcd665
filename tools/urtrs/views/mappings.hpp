// `urtrs map`, `unmap`, `remap` and `mapping`: asks urtrs-mapd.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

bool is_mapping(const Command& command);
// The exit code; of `map --run` that of the command that was run.
int run_mapping(const Command& command);

// The devices of an answer to device.list.
Table mappings(const nlohmann::json& listed, const std::string& session);

}  // namespace rtrs::admin
