#include "tools/urtrsd/config_text.hpp"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <limits>

#include "tools/lib/text/nearest_word.hpp"

namespace rtrs::daemon {
namespace {}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
  for (const char* yes : {"true", "yes", "on", "1"})
    if (text == yes) return true;
  for (const char* no : {"false", "no", "off", "0"})
    if (text == no) return false;
  return std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr == text.data()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  if (unit.empty() || unit == "B") return value;
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t power = kUnits.find(unit.front() == 'k' ? 'K' : unit.front());
  unit.remove_prefix(1);
  if (power == std::string_view::npos || (!unit.empty() && unit != "iB" && unit != "B")) return std::nullopt;
  const auto shift = static_cast<unsigned int>(10 * (power + 1));
  if (value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

bool is_ip_address(const std::string& text) {
  std::array<unsigned char, 16> address{};
  return ::inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

std::string plain_address(const std::string& text) {
  const std::string bare = text.rfind("gid:", 0) == 0 ? text.substr(4) : text;
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> plain{};
  if (::inet_pton(AF_INET6, bare.c_str(), &address) != 1) return text;
  if (IN6_IS_ADDR_V4MAPPED(&address) && bare == text)
    ::inet_ntop(AF_INET, &address.s6_addr[12], plain.data(), plain.size());
  else
    ::inet_ntop(AF_INET6, &address, plain.data(), plain.size());
  return (bare == text ? "" : "gid:") + std::string(plain.data());
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string meant = tools::nearest_word(word, candidates);
  return meant.empty() ? std::string() : "did you mean \"" + meant + "\"?";
}

}  // namespace rtrs::daemon
