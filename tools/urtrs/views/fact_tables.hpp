// Tables of sessions, paths, devices and other objects. The fields come from the facts of the object, the
// values from the JSON of the program that has it, which may be of the previous release.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

using Fields = std::vector<Field>;

std::string sessname_of(const nlohmann::json& session);
std::string pathname_of(const nlohmann::json& path);
// Example: "path 0  ip:10.0.0.1@ip:10.0.0.2  rxe0  connected  silent for 12 s".
std::string path_line(const nlohmann::json& path);

// Totals that the JSON of a session lacks are sums over its paths. `below` returns the line about a path.
Table session_table(const Fields& session, const Fields& path, const nlohmann::json& shown,
                    std::string (*below)(const nlohmann::json& path));
// `session`: its name; empty: all sessions. `whole`: rows also have the members of the JSON that are not in
// tables.
Table path_table(const Fields&, const nlohmann::json& shown, const std::string& session, bool whole);
// `name`: key of the array in the JSON of the table. `objects`: array. `session`, `whole`: as above.
Table object_table(const char* name, const Fields&, const nlohmann::json& objects,
                   const std::string& session = {}, bool whole = false);

}  // namespace rtrs::admin
