#include "tools/lib/control/attributes/written_values.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>

namespace rtrs::attributes {

namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";
constexpr std::int32_t kMaxAttempts = 9999;

struct Policy {
  MultipathPolicy policy;
  std::string_view brief;
  std::string_view shown;
};
constexpr Policy kPolicies[] = {{MultipathPolicy::round_robin, "rr", "RR"},
                                {MultipathPolicy::min_inflight, "mi", "MI"},
                                {MultipathPolicy::min_latency, "ml", "ML"}};

std::string_view without_newline(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

// Parses digits, optionally followed by one newline. As in Linux, ERANGE takes precedence over EINVAL for
// characters after the digits.
tl::expected<std::uint64_t, int> parse_digits(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error == std::errc::result_out_of_range) return tl::unexpected(ERANGE);
  if (error != std::errc{}) return tl::unexpected(EINVAL);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (!without_newline(rest).empty()) return tl::unexpected(EINVAL);
  return value;
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Returns the address in the form of PathAddress: without "ip:", with "gid:".
tl::expected<std::string, int> parse_address(std::string_view text, int unknown_kind) {
  const bool ip = text.substr(0, 3) == "ip:";
  const bool gid = text.substr(0, 4) == "gid:";
  if (!ip && !gid) return tl::unexpected(unknown_kind);
  const std::string address(text.substr(ip ? 3 : 4));
  in_addr four{};
  in6_addr six{};
  // A link-local IPv6 address can end with its interface: fe80::1%eth0.
  const std::size_t scope = ip ? address.find('%') : std::string::npos;
  const bool known = (ip && ::inet_pton(AF_INET, address.c_str(), &four) == 1) ||
                     ::inet_pton(AF_INET6, address.substr(0, scope).c_str(), &six) == 1;
  if (scope != std::string::npos && scope + 1 == address.size()) return tl::unexpected(EINVAL);
  if (!known) return tl::unexpected(EINVAL);
  return gid ? std::string(text) : address;
}

}  // namespace

std::string_view stripped(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

tl::expected<std::int32_t, int> parse_attempts(std::string_view text) {
  const bool negative = text.substr(0, 1) == "-";
  if (negative || text.substr(0, 1) == "+") text.remove_prefix(1);
  const auto digits = parse_digits(text, 10);
  if (!digits) return tl::unexpected(digits.error());
  const std::uint64_t most = std::uint64_t{std::numeric_limits<std::int32_t>::max()} + (negative ? 1U : 0U);
  if (*digits > most) return tl::unexpected(ERANGE);
  const auto value = negative ? -static_cast<std::int64_t>(*digits) : static_cast<std::int64_t>(*digits);
  if (value < -1 || value > kMaxAttempts) return tl::unexpected(EINVAL);
  return static_cast<std::int32_t>(value);
}

tl::expected<std::uint64_t, int> parse_sectors(std::string_view text) {
  if (text.substr(0, 1) == "+") text.remove_prefix(1);
  const bool hex =
      text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') && is_hex_digit(text[2]);
  if (hex) return parse_digits(text.substr(2), 16);
  return parse_digits(text, text.substr(0, 1) == "0" ? 8 : 10);
}

std::optional<MultipathPolicy> parse_policy(std::string_view text) {
  const std::string written = lower(text);
  const std::string_view word = without_newline(written);
  for (const Policy& one : kPolicies) {
    const std::string_view name = to_string(one.policy);
    const auto number = std::to_string(static_cast<unsigned>(one.policy));
    if (word == number || word == one.brief || word.substr(0, name.size()) == name) return one.policy;
  }
  return std::nullopt;
}

std::string policy_text(MultipathPolicy policy) {
  for (const Policy& one : kPolicies)
    if (one.policy == policy)
      return fmt::format("{} ({}: {})\n", to_string(policy), one.shown, static_cast<unsigned>(policy));
  return "\n";
}

tl::expected<PathAddress, int> parse_addresses(std::string_view text, std::uint16_t port, int unknown_kind) {
  PathAddress path;
  path.port = port;
  const std::size_t separator = text.find_first_of("@,");
  if (separator != std::string_view::npos) {
    auto source = parse_address(text.substr(0, separator), EINVAL);
    if (!source) return tl::unexpected(source.error());
    path.source = std::move(*source);
    text.remove_prefix(separator + 1);
  }
  auto destination = parse_address(text, unknown_kind);
  if (!destination) return tl::unexpected(destination.error());
  path.destination = std::move(*destination);
  return path;
}

}  // namespace rtrs::attributes
