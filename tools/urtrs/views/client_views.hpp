// Tables for `urtrs client`, made from replies to client.show (docs/management.md).
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// `shown` is one reply to client.show, or the combined sessions and devices of several replies.
Table client_sessions(const nlohmann::json& shown);
Table client_paths(const nlohmann::json& shown, const std::string& session);  // `session` empty: all sessions
Table client_devices(const nlohmann::json& shown, const std::string& session);
Table client_statistics(const nlohmann::json& shown);
Table client_timers(const nlohmann::json& shown, const std::string& of);
// Computes the IO rates of each path between two replies.
Table client_rates(const nlohmann::json& before, const nlohmann::json& now, double seconds);
std::string client_waits_text(const nlohmann::json& dump);  // `dump` is a reply to debug.dump

}  // namespace rtrs::admin
