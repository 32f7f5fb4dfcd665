#include "tools/lib/text/json_text.hpp"

#include <nlohmann/json.hpp>

namespace rtrs::tools {

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rtrs::tools
