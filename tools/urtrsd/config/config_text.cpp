#include "tools/urtrsd/config/config_text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "tools/lib/text/nearest_word.hpp"

namespace rtrs::daemon {

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

bool is_ip_address(const std::string& text) {
  std::array<unsigned char, 16> address{};
  const std::size_t scope = text.find('%');
  if (scope != std::string::npos && scope + 1 == text.size()) return false;
  return ::inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, text.substr(0, scope).c_str(), address.data()) == 1;
}

bool is_host_name(const std::string& text) {
  constexpr std::size_t kLongest = 253;
  const auto may_be_in_one = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  };
  return !text.empty() && text.size() <= kLongest && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), may_be_in_one) &&
         text.find_first_not_of("0123456789.") != std::string::npos;
}

std::string plain_address(const std::string& given) {
  const std::size_t scope = std::min(given.find('%'), given.size());
  if (scope != given.size()) return plain_address(given.substr(0, scope)) + given.substr(scope);
  const std::string& text = given;
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
