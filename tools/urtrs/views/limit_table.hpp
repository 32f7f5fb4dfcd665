// `urtrs limits` shows the limits of tools/lib/control/limits, with the values and the current use of a
// running urtrsd.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// `shown` is the reply to server.show; null if there is no server.
Table limit_table(const nlohmann::json& shown);
// Prints the table and returns the exit code. Without a server, values and current use are missing.
int show_limits(const Options&);

}  // namespace rtrs::admin
