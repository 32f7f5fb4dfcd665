// Tables of sessions, paths, devices and other objects. The list of facts of a kind of object determines the
// fields. The values come from the JSON of the program that has the object, which may be of the previous
// release.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

using Fields = std::vector<Field>;

std::string sessname_of(const nlohmann::json& session);
std::string pathname_of(const nlohmann::json& path);
// Formats a path as a line, for example "path 0  ip:10.0.0.1@ip:10.0.0.2  rxe0  connected  silent for 12 s".
std::string path_line(const nlohmann::json& path);

// If the JSON of a session lacks a total, the values of its paths are added up. `below` returns the line for
// a path.
Table session_table(const Fields& session, const Fields& path, const nlohmann::json& shown,
                    std::string (*below)(const nlohmann::json& path));
// `session` is the name of a session; empty: all sessions. With `whole`, the rows also have the JSON members
// that are not fields of tables.
Table path_table(const Fields&, const nlohmann::json& shown, const std::string& session, bool whole);
// `name` is the key of the array when the table is printed as JSON. `objects` is an array. `session` and
// `whole` have the same meaning as above.
Table object_table(const char* name, const Fields&, const nlohmann::json& objects,
                   const std::string& session = {}, bool whole = false);

}  // namespace rtrs::admin
