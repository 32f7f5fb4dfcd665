// One option as a row of a table: name, accepted values, default and help text. Programs, the nbdkit plugin
// and the C interface read the same rows.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/proto/ids.hpp"

namespace rtrs::options {

enum class Kind : std::uint8_t { text, file, word, toggle, number, time, size };

// Accepted values of an option. Numbers, times (nanoseconds) and sizes (bytes) lie between `least` and
// `most`.
struct Rule {
  Kind kind = Kind::text;
  std::string_view shape = {};  // placeholder of the value in help texts; for words: "a|b|c"
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool or_never = false;       // times: "never" is also accepted
  bool or_zero = false;        // times and sizes: 0 is also accepted
  std::uint64_t plain = 1;     // sizes: bytes of a number without a unit
  bool power_of_two = false;   // sizes: only powers of two
  bool or_empty = false;       // texts: an empty text is also accepted
  std::string_view hint = {};  // replaces the list of words in an error message
};
constexpr Rule text(std::string_view shape) {
  return {.kind = Kind::text, .shape = shape};
}
constexpr Rule file() {
  return {.kind = Kind::file, .shape = "FILE"};
}
constexpr Rule file_or_empty() {
  return {.kind = Kind::file, .shape = "FILE", .or_empty = true};
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
// Accepts any time longer than 0.
constexpr Rule time() {
  return {.kind = Kind::time, .shape = "TIME"};
}
constexpr Rule time_or_never() {
  return {.kind = Kind::time, .shape = "TIME|never", .or_never = true};
}
constexpr Rule time_or_zero(Nanos most) {
  return {.kind = Kind::time, .shape = "TIME", .most = static_cast<std::int64_t>(most), .or_zero = true};
}

constexpr Rule size(std::int64_t least, std::int64_t most) {
  return {.kind = Kind::size, .shape = "SIZE", .least = least, .most = most};
}
// Accepts sizes; a number without a unit is in MiB.
constexpr Rule mebibytes(std::int64_t least, std::int64_t most) {
  Rule rule = size(least, most);
  rule.plain = 1U << 20;
  return rule;
}

// A checked value: `on` for toggles; `number` for numbers, times and sizes. `text` is the value as written.
struct Value {
  std::string_view text;
  bool on = false;
  std::int64_t number = 0;  // times are in ns, sizes in bytes; -1: never
};

// Programs that accept an option.
enum class Side : std::uint8_t { both, client, server };

struct Row {
  std::string_view name;  // snake_case; on command lines with dashes
  Rule rule;
  std::string_view initial;  // default as a user writes it; empty: none
  std::string_view help;
  Side side = Side::both;
};

template <class Target, class Type>
using Access = Type* (*)(const Target&);
template <class Target>
using Store = void (*)(const Target&, const Value&);

template <class Target>
struct Option : Row {
  // Pointer to the field that stores the value, or a function that stores it.
  std::variant<Access<Target, std::string>, Access<Target, bool>, Access<Target, std::optional<bool>>,
               Access<Target, std::uint16_t>, Access<Target, std::uint32_t>, Access<Target, std::int32_t>,
               Access<Target, std::uint64_t>, Store<Target>>
      field;
  std::string (*shown)(const Target&) = nullptr;  // used by show() if `field` is a function
};

std::string dashed(std::string_view name);  // returns "rdma-tos" for "rdma_tos"

// Returns an error message that begins with `name`, or an empty string on success.
std::string parse(const Rule& rule, std::string_view name, std::string_view value, Value& out);
// Returns the value as a user writes it.
std::string written(const Rule& rule, const Value& value);
std::string range(const Rule& rule, std::string_view between);  // "10ms to 1h" if `between` is " to "
std::vector<std::string> choices(const Rule& rule);             // accepted words of a Kind::word rule

template <class Target>
const Option<Target>* find(std::span<const Option<Target>> table, std::string_view name) {
  for (const Option<Target>& one : table)
    if (one.name == name) return &one;
  return nullptr;
}

template <class Target>
void store(const Option<Target>& option, const Target& target, const Value& value) {
  const auto into = [&](auto field) {
    if constexpr (std::is_same_v<decltype(field), Store<Target>>) {
      field(target, value);
    } else {
      auto& to = *field(target);
      using Type = std::remove_reference_t<decltype(to)>;
      if constexpr (std::is_same_v<Type, std::string>)
        to = value.text;
      else if constexpr (std::is_same_v<Type, bool> || std::is_same_v<Type, std::optional<bool>>)
        to = value.on;
      else
        to = static_cast<Type>(value.number);
    }
  };
  std::visit(into, option.field);
}

// Returns the option's value in `target` as a user writes it; empty: unset.
template <class Target>
std::string show(const Option<Target>& option, const Target& target) {
  if (option.shown != nullptr) return option.shown(target);
  const auto from = [&](auto field) -> std::string {
    if constexpr (std::is_same_v<decltype(field), Store<Target>>) {
      return {};
    } else {
      const auto& of = *field(target);
      using Type = std::remove_cvref_t<decltype(of)>;
      if constexpr (std::is_same_v<Type, std::string>)
        return of;
      else if constexpr (std::is_same_v<Type, std::optional<bool>>)
        return of ? written(option.rule, {.text = {}, .on = *of}) : std::string();
      else if constexpr (std::is_same_v<Type, bool>)
        return written(option.rule, {.text = {}, .on = of});
      else
        return written(option.rule, {.text = {}, .number = static_cast<std::int64_t>(of)});
    }
  };
  return std::visit(from, option.field);
}

// Returns an error message; empty if the value was stored.
template <class Target>
std::string set(const Option<Target>& option, const Target& target, std::string_view value) {
  Value checked;
  std::string error = parse(option.rule, option.name, value, checked);
  if (error.empty()) store(option, target, checked);
  return error;
}

}  // namespace rtrs::options
