// Plugin parameters of a mapped session: port, fabric, and credentials (TLS or shared keys).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/options/connection.hpp"

namespace rtrs::mapping {

using Credentials = std::map<std::string, std::string>;

// Returns the table row of the parameter; nullptr if the parameter is not a credential.
inline const options::Row* credential(std::string_view parameter) {
  if (!parameter.starts_with("tls") && !parameter.starts_with("auth")) return nullptr;
  return options::find(options::connection_options(), parameter);
}
inline bool is_credential(std::string_view parameter) {
  return credential(parameter) != nullptr;
}
inline bool is_credential_file(std::string_view parameter) {
  const options::Row* const row = credential(parameter);
  return row != nullptr && row->rule.kind == options::Kind::file;
}
inline std::vector<std::string_view> credential_names() {
  std::vector<std::string_view> names;
  for (const options::Row& row : options::connection_options())
    if (is_credential(row.name)) names.push_back(row.name);
  return names;
}
// Returns the row of a parameter that "urtrs map" can set for one session; nullptr if it cannot.
inline const options::Row* session_parameter(std::string_view name) {
  if (name == options::kServerPort.name) return &options::kServerPort;
  return name == "fabric" ? options::find(options::connection_options(), name) : credential(name);
}
inline std::vector<const options::Row*> session_parameters() {
  std::vector<const options::Row*> rows{&options::kServerPort};
  for (const options::Row& row : options::connection_options())
    if (session_parameter(row.name) != nullptr) rows.push_back(&row);
  return rows;
}

}  // namespace rtrs::mapping
