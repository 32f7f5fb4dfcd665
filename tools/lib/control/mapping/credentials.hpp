// Credentials of a mapped session (TLS or shared keys): names and values of plugin parameters.
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

}  // namespace rtrs::mapping
