// One option as a row of a table: name, accepted values, default and help text. Programs, the nbdkit plugin
// and the C interface read the same rows.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"

namespace rtrs::options {

enum class Kind : std::uint8_t { text, file, word, toggle, number, time, size };

// Accepted values. Numbers, times (nanoseconds) and sizes (bytes) lie between `least` and `most`.
struct Rule {
  Kind kind = Kind::text;
  std::string_view shape = {};  // of the value in help texts; words: "a|b|c"
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool or_never = false;       // times: also "never"
  bool or_empty = false;       // texts: also the empty one
  std::string_view hint = {};  // replaces the list of words, or the range of a size, in an error
};
constexpr Rule text(std::string_view shape) {
  return {.kind = Kind::text, .shape = shape};
}
constexpr Rule file() {
  return {.kind = Kind::file, .shape = "FILE"};
}
constexpr Rule words(std::string_view shape, std::string_view hint = {}) {
  return {.kind = Kind::word, .shape = shape, .hint = hint};
}
constexpr Rule toggle() {
  return {.kind = Kind::toggle, .shape = "on|off"};
}
constexpr Rule number(std::int64_t least, std::int64_t most) {
  return {.kind = Kind::number, .shape = "N", .least = least, .most = most};
}
constexpr Rule interval(Nanos least) {
  return {.kind = Kind::time,
          .shape = "TIME",
          .least = static_cast<std::int64_t>(least),
          .most = static_cast<std::int64_t>(seconds(3600))};
}
// Any time longer than 0.
constexpr Rule time() {
  return {.kind = Kind::time, .shape = "TIME"};
}
constexpr Rule time_or_never() {
  return {.kind = Kind::time, .shape = "TIME|never", .or_never = true};
}

// A number without a unit is in MiB.
constexpr Rule mebibytes(std::int64_t least, std::int64_t most, std::string_view hint) {
  return {.kind = Kind::size, .shape = "SIZE", .least = least, .most = most, .hint = hint};
}

// A checked value, in the member of its kind. `text` is the value as written.
struct Value {
  std::string_view text;
  bool on = false;
  std::int64_t number = 0;
  Nanos time = 0;
};

struct Row {
  std::string_view name;  // snake_case; on command lines with dashes
  Rule rule;
  std::string_view initial;  // default as a user writes it; empty: none
  std::string_view help;
};

template <class Target>
struct Option : Row {
  void (*store)(const Target&, const Value&);
};

// The error is a sentence that begins with `name`.
std::string parse(const Rule& rule, std::string_view name, std::string_view value, Value& out);

template <class Target>
const Option<Target>* find(std::span<const Option<Target>> table, std::string_view name) {
  for (const Option<Target>& one : table)
    if (one.name == name) return &one;
  return nullptr;
}

// Returns an error sentence; empty if the value was stored.
template <class Target>
std::string set(const Option<Target>& option, const Target& target, std::string_view value) {
  Value checked;
  std::string error = parse(option.rule, option.name, value, checked);
  if (error.empty()) option.store(target, checked);
  return error;
}

}  // namespace rtrs::options
