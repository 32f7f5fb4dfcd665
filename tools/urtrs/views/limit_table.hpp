// urtrs limits: the limits of tools/lib/control/limits, beside what a running urtrsd has set and uses.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// `shown`: the answer to server.show; null without a server.
Table limit_table(const nlohmann::json& shown);
// Prints, and answers the exit code. Without a server only the limits themselves are shown.
int show_limits(const Options&);

}  // namespace rtrs::admin
