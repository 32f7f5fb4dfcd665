// Tables of `urtrs client`, from replies to client.show (docs/management.md).
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// `shown`: one reply, or the merged sessions and devices of several.
Table client_sessions(const nlohmann::json& shown);
Table client_paths(const nlohmann::json& shown, const std::string& session);  // empty: all sessions
Table client_devices(const nlohmann::json& shown, const std::string& session);
Table client_statistics(const nlohmann::json& shown);
Table client_timers(const nlohmann::json& shown, const std::string& of);
// IO rates of each path between two replies.
Table client_rates(const nlohmann::json& before, const nlohmann::json& now, double seconds);
std::string client_waits_text(const nlohmann::json& dump);  // `dump`: reply to debug.dump

}  // namespace rtrs::admin
