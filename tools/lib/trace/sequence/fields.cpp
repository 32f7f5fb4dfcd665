#include "tools/lib/trace/sequence/fields.hpp"

#include <algorithm>
#include <charconv>

#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::tools::sequence {

int Fields::find(std::string_view name) const noexcept {
  const auto& fields = record_.event->fields;
  for (std::size_t i = 0; i < fields.size() && i < record_.values.size(); ++i) {
    if (fields[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::uint64_t Fields::number(std::string_view name) const noexcept {
  const int at = find(name);
  return at < 0 ? 0 : record_.values[static_cast<std::size_t>(at)].number;
}

std::string_view Fields::bytes(std::string_view name) const noexcept {
  const int at = find(name);
  return at < 0 ? std::string_view{} : record_.values[static_cast<std::size_t>(at)].bytes;
}

std::string Fields::word(std::string_view name) const {
  const int at = find(name);
  if (at < 0) return {};
  const auto index = static_cast<std::size_t>(at);
  return trace::value_text(record_.event->fields[index], record_.values[index], schema_);
}

ConKey Fields::key() const noexcept {
  ConKey key;
  key.set_number(static_cast<std::uint32_t>(number("key.path")));
  key.con = static_cast<std::uint16_t>(number("key.con"));
  key.epoch = static_cast<std::uint32_t>(number("key.epoch"));
  return key;
}

std::string Fields::lines() const {
  std::string out;
  const auto& fields = record_.event->fields;
  for (std::size_t i = 0; i < fields.size() && i < record_.values.size(); ++i) {
    std::string value = trace::value_text(fields[i], record_.values[i], schema_);
    // Maximum length of a value in bytes. A tooltip cannot show a whole payload; `urtrs-replay cat` can.
    constexpr std::size_t kLongest = 512;
    if (value.size() > kLongest) value = value.substr(0, kLongest) + "...";
    out += (out.empty() ? "" : "\n") + fields[i].name + '=' + value;
  }
  return out;
}

std::string_view value_of(std::string_view lines, std::string_view name) noexcept {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    if (line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name))
      return line.substr(name.size() + 1);
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
  }
  return {};
}

std::uint64_t number_of(std::string_view lines, std::string_view name) noexcept {
  const std::string_view text = value_of(lines, name);
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace rtrs::tools::sequence
