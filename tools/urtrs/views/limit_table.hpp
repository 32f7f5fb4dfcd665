// `urtrs limits`: the limits of tools/lib/control/limits, with values and current use of a running urtrsd.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// `shown`: reply to server.show; null without a server.
Table limit_table(const nlohmann::json& shown);
// Prints the table. Returns the exit code. Without a server, values and use are not shown.
int show_limits(const Options&);

}  // namespace rtrs::admin
