// Makes failure texts comparable: failures that differ only in numbers count as the same failure.
#pragma once
#include <cctype>
#include <string>

namespace rtrs::tools {

// Replaces each number by one '#'.
inline std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      out += c;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

}  // namespace rtrs::tools
