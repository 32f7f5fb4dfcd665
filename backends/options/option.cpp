#include "backends/options/option.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

#include "backends/options/quantity.hpp"

namespace rtrs::options {
namespace {

std::string refuse(std::string_view name, std::string_view value, const std::string& why) {
  return std::string(name) + "=" + std::string(value) + ": " + why;
}

// Joins the words: "a, b or c".
std::string sentence(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : &word == &words.back() ? " or " : ", ") + word;
  return text;
}

struct NamedUnit {
  const char* name;
  std::uint64_t of;
};

// Formats a number with the largest unit that divides it.
std::string in_units(std::uint64_t number, std::initializer_list<NamedUnit> units) {
  for (const NamedUnit& unit : units)
    if (number >= unit.of && number % unit.of == 0) return std::to_string(number / unit.of) + unit.name;
  return std::to_string(number);
}

std::string duration(Nanos time) {
  if (time == kNever) return "never";
  return in_units(time, {{"h", seconds(3600)},
                         {"m", seconds(60)},
                         {"s", seconds(1)},
                         {"ms", milliseconds(1)},
                         {"us", 1000},
                         {"ns", 1}});
}

std::string bytes(std::uint64_t size) {
  return in_units(size, {{"T", std::uint64_t{1} << 40}, {"G", 1U << 30}, {"M", 1U << 20}, {"K", 1U << 10}});
}

std::string parse_number(const Rule& rule, std::string_view name, std::string_view value, Value& out) {
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, out.number);
  if (error == std::errc{} && stop == end && out.number >= rule.least && out.number <= rule.most) return {};
  return refuse(
      name, value,
      "expected a whole number from " + std::to_string(rule.least) + " to " + std::to_string(rule.most));
}

std::string parse_time(const Rule& rule, std::string_view name, std::string_view value, Value& out) {
  out.number = static_cast<std::int64_t>(kNever);
  if (rule.or_never && value == "never") return {};
  const auto time = rule.or_zero ? parse_duration(value) : parse_positive_duration(value);
  if (!time) return std::string(name) + ": " + time.error();
  out.number = static_cast<std::int64_t>(*time);
  if (rule.most == 0 || (out.number >= rule.least && out.number <= rule.most)) return {};
  return refuse(name, value, "expected " + range(rule, " to "));
}

std::string parse_bytes(const Rule& rule, std::string_view name, std::string_view value, Value& out) {
  const auto size = parse_size(value, rule.plain);
  if (!size) return std::string(name) + ": " + size.error();
  out.number = static_cast<std::int64_t>(*size);
  if (rule.or_zero && *size == 0) return {};
  if (*size >= static_cast<std::uint64_t>(rule.least) && *size <= static_cast<std::uint64_t>(rule.most) &&
      (!rule.power_of_two || std::has_single_bit(*size)))
    return {};
  return refuse(
      name, value,
      std::string("expected ") + (rule.power_of_two ? "a power of two from " : "") + range(rule, " to "));
}

}  // namespace

std::string dashed(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::vector<std::string> choices(const Rule& rule) {
  std::vector<std::string> words(1);
  for (const char c : rule.shape) {
    if (c == '|')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

std::string range(const Rule& rule, std::string_view between) {
  return written(rule, {.text = {}, .number = rule.least}) + std::string(between) +
         written(rule, {.text = {}, .number = rule.most});
}

std::string written(const Rule& rule, const Value& value) {
  switch (rule.kind) {
    case Kind::toggle:
      return value.on ? "on" : "off";
    case Kind::number:
      return std::to_string(value.number);
    case Kind::time:
      return duration(static_cast<Nanos>(value.number));
    case Kind::size:
      return bytes(static_cast<std::uint64_t>(value.number));
    default:
      return std::string(value.text);
  }
}

std::string parse(const Rule& rule, std::string_view name, std::string_view value, Value& out) {
  out.text = value;
  switch (rule.kind) {
    case Kind::text:
    case Kind::file:
      return value.empty() && !rule.or_empty ? refuse(name, value, "is empty") : std::string();
    case Kind::word:
    case Kind::toggle: {
      const std::vector<std::string> words = choices(rule);
      out.on = value == "on";
      if (std::find(words.begin(), words.end(), value) != words.end()) return {};
      return refuse(name, value,
                    "expected " + (rule.hint.empty() ? sentence(words) : std::string(rule.hint)));
    }
    case Kind::number:
      return parse_number(rule, name, value, out);
    case Kind::time:
      return parse_time(rule, name, value, out);
    case Kind::size:
      return parse_bytes(rule, name, value, out);
  }
  return {};
}

}  // namespace rtrs::options
