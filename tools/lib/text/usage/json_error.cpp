#include "tools/lib/text/usage/json_error.hpp"

#include <cstdio>
#include <string_view>

namespace rtrs::tools {

bool wants_json(int argc, const char* const* argv) {
  for (int at = 1; at < argc; ++at) {
    const std::string_view word = argv[at];
    if (word == "--") return false;
    if (word == "--json" || word.substr(0, 7) == "--json=") return true;
  }
  return false;
}

const char* error_code(int exit_code) noexcept {
  return exit_code == 2 ? "usage" : exit_code == 3 ? "precondition" : exit_code == 4 ? "timeout" : "failed";
}

std::string without_name(const std::string& said) {
  const std::string line = said.substr(0, said.find('\n'));
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

std::string json_error(int exit_code, const std::string& message) {
  std::string text;
  for (const char c : message.substr(0, message.find_last_not_of('\n') + 1)) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      text += escaped;
    } else {
      text += c;
    }
  }
  return std::string("{\"schema_version\":1,\"error\":{\"code\":\"") + error_code(exit_code) +
         "\",\"message\":\"" + text + "\"}}\n";
}

}  // namespace rtrs::tools
