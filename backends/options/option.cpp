#include "backends/options/option.hpp"

#include <charconv>

#include "backends/options/quantity.hpp"

namespace rtrs::options {
namespace {

std::string refuse(std::string_view name, std::string_view value, const std::string& why) {
  return std::string(name) + "=" + std::string(value) + ": " + why;
}

// "a|b|c" as "a, b or c".
std::string sentence(std::string_view words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != '|')
      text += words[i];
    else
      text += words.find('|', i + 1) == std::string_view::npos ? " or " : ", ";
  }
  return text;
}

bool is_one_of(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = words.find('|');
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  return false;
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
  if (rule.or_never && value == "never") {
    out.time = kNever;
    return {};
  }
  const auto time = parse_positive_duration(value);
  if (!time) return std::string(name) + ": " + time.error();
  out.time = *time;
  const auto least = static_cast<Nanos>(rule.least);
  if (rule.most == 0 || (*time >= least && *time <= static_cast<Nanos>(rule.most))) return {};
  return refuse(name, value, "expected " + std::to_string(least / milliseconds(1)) + "ms to 1h");
}

std::string parse_mebibytes(const Rule& rule, std::string_view name, std::string_view value, Value& out) {
  const auto size = parse_size(value, 1U << 20);
  if (!size) return std::string(name) + ": " + size.error();
  out.number = static_cast<std::int64_t>(*size);
  if (*size >= static_cast<std::uint64_t>(rule.least) && *size <= static_cast<std::uint64_t>(rule.most))
    return {};
  return refuse(name, value, "expected " + std::string(rule.hint));
}

}  // namespace

std::string parse(const Rule& rule, std::string_view name, std::string_view value, Value& out) {
  out.text = value;
  switch (rule.kind) {
    case Kind::text:
    case Kind::file:
      return value.empty() && !rule.or_empty ? refuse(name, value, "is empty") : std::string();
    case Kind::word:
      if (is_one_of(rule.shape, value)) return {};
      return refuse(name, value,
                    "expected " + (rule.hint.empty() ? sentence(rule.shape) : std::string(rule.hint)));
    case Kind::toggle:
      out.on = value == "on";
      return is_one_of(rule.shape, value) ? std::string() : refuse(name, value, "expected on or off");
    case Kind::number:
      return parse_number(rule, name, value, out);
    case Kind::time:
      return parse_time(rule, name, value, out);
    case Kind::size:
      return parse_mebibytes(rule, name, value, out);
  }
  return {};
}

}  // namespace rtrs::options
