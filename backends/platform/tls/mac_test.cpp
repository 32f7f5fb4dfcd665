#include "backends/platform/tls/mac.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace rtrs::tls::mac_test {
namespace {

std::string mac_of(std::string_view key, std::string_view message) {
  const auto mac = hmac_sha256()(std::as_bytes(std::span(key)), std::as_bytes(std::span(message)));
  std::string hex;
  for (const std::byte byte : mac) {
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4U];
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15U];
  }
  return hex;
}

// Test cases 1 and 2 of RFC 4231.
TEST(Mac, IsHmacSha256) {
  EXPECT_EQ(mac_of(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(mac_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace rtrs::tls::mac_test
