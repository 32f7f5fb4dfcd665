// Tables of sessions, paths and devices, made from their facts and the JSON of the program that has them. The
// JSON may be of the release before.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

using Fields = std::vector<Field>;

std::string sessname_of(const nlohmann::json& session);
std::string pathname_of(const nlohmann::json& path);
// "path 0  ip:10.0.0.1@ip:10.0.0.2  rxe0  connected  silent for 12 s".
std::string path_line(const nlohmann::json& path);

// Fields of the session that `shown` lacks are sums over its paths. `below`: line about a path.
Table session_table(const Fields& session, const Fields& path, const nlohmann::json& shown,
                    std::string (*below)(const nlohmann::json& path));
// `session`: only its paths; empty: all. `whole`: rows also have the members of the JSON that are no fields.
Table path_table(const Fields&, const nlohmann::json& shown, const std::string& session, bool whole);
// `name`: of the table.
Table device_table(const char* name, const Fields&, const nlohmann::json& shown, const std::string& session,
                   bool whole);

}  // namespace rtrs::admin
