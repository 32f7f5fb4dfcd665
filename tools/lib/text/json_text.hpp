// JSON as text for files, sockets and terminals.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rtrs::tools {

// `value` on one line, or indented by `indent` blanks a level. Every character above ASCII is \uNNNN, so that
// text of others cannot control a terminal that shows the JSON. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace rtrs::tools
