#include "tools/lib/text/session_name.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

namespace rtrs::tools {

namespace {

constexpr std::size_t kMostWho = 128;  // maximum length of an identity in bytes
constexpr std::size_t kMaxHost = 24;
constexpr std::size_t kMostWhat = 28;

std::string plain(std::string_view text, std::size_t most) {
  std::string name(text.substr(0, most));
  for (char& c : name) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '@' || c == ':';
    if (!fits) c = '_';
  }
  return name;
}

}  // namespace

std::string default_session_name(std::string_view who, std::string_view what, std::uint32_t random) {
  return fmt::format("{}-{}-{:08x}", plain(who, kMostWho), plain(what, kMostWhat), random);
}

std::string short_host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string name = host.data();
  name = name.substr(0, std::min(name.find('.'), kMaxHost));
  return name.empty() ? "host" : name;
}

std::uint32_t random_part() {
  std::random_device random;
  return random();
}

}  // namespace rtrs::tools
