#include "backends/platform/tls/identity.hpp"

#include <algorithm>

namespace rtrs::tls {
namespace {

bool is_good(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == ':' || c == '@' || c == '-';
}

}  // namespace

bool is_identity(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxIdentityBytes && std::all_of(text.begin(), text.end(), is_good);
}

std::string shown_identity(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string shown;
  for (const char c : text.substr(0, kMaxIdentityBytes)) {
    if (is_good(c)) {
      shown += c;
      continue;
    }
    const auto octet = static_cast<unsigned char>(c);
    shown += "\\x";
    shown += kDigits[octet >> 4U];
    shown += kDigits[octet & 15U];
  }
  if (text.size() > kMaxIdentityBytes) shown += "...";
  return shown;
}

}  // namespace rtrs::tls
