#include "tools/urtrsd/config_text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace rtrs::daemon {
namespace {

// Edits (insert, delete, replace, swap of neighbours) between two words.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

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

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kShortestPart = 4;
  const std::size_t tolerated = std::max<std::size_t>(1, word.size() / 3);
  std::size_t best = tolerated + 1;
  std::string result;
  for (const std::string& candidate : candidates) {
    std::size_t apart = distance(word, candidate);
    const bool part = (word.size() >= kShortestPart && candidate.find(word) != std::string::npos) ||
                      (candidate.size() >= kShortestPart && word.find(candidate) != std::string_view::npos);
    if (part) apart = std::min(apart, tolerated);
    if (apart < best) {
      best = apart;
      result = candidate;
    }
  }
  return result;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? std::string() : "did you mean \"" + meant + "\"?";
}

}  // namespace rtrs::daemon
