// Serialises JSON for files, sockets and terminals.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rtrs::tools {

// Returns `value` on one line, or indented by `indent` spaces per level. Every non-ASCII character is escaped
// as \uNNNN, so that a string of a peer cannot control the terminal that shows the JSON. Invalid UTF-8
// becomes U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace rtrs::tools
