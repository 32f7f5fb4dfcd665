#include "tools/urtrs/command/export_words.hpp"

#include <string_view>

namespace rtrs::admin {

namespace {

// Accepts any URI scheme. urtrsd checks which schemes are valid.
bool is_uri(std::string_view source) {
  const std::size_t end = source.find("://");
  return end != std::string_view::npos && end != 0 &&
         source.substr(0, end).find_first_not_of("abcdefghijklmnopqrstuvwxyz+") == std::string_view::npos;
}

}  // namespace

std::string with_absolute_source(const std::string& word, const std::string& folder) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || folder.empty()) return word;
  const std::string source = word.substr(equals + 1);
  const bool file = !source.empty() && source.front() != '/' && source.front() != ',' &&
                    source.rfind("mem:", 0) != 0 && !is_uri(source);
  if (!file) return word;
  std::string whole = word.substr(0, equals + 1);
  // A comma separates options, so a comma in a name is doubled.
  for (const char c : folder) whole += c == ',' ? ",," : std::string(1, c);
  if (whole.back() != '/') whole += '/';
  return whole + source;
}

}  // namespace rtrs::admin
