// Tests the messages between two probes, and the pattern that they write.
#include "tools/lib/control/rdma_probe/hello.hpp"

#include <gtest/gtest.h>

namespace rtrs::probe::hello_test {
namespace {

TEST(Hello, RoundTripsAndRefusesOtherBytes) {
  const Hello hello{.key = 0x01020304, .address = 0x1122334455667788, .length = 131072};
  const HelloBytes bytes = encode(hello);
  const auto got = decode(bytes);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->key, hello.key);
  EXPECT_EQ(got->address, hello.address);
  EXPECT_EQ(got->length, hello.length);
  EXPECT_FALSE(decode(std::span(bytes).first(bytes.size() - 1)));
  EXPECT_FALSE(decode({}));
  for (std::size_t at = 0; at < 12; ++at) {
    HelloBytes wrong = bytes;
    wrong[at] ^= std::byte{1};
    EXPECT_FALSE(decode(wrong)) << at;
  }
}

TEST(Hello, PatternMatchesOnlyItsRound) {
  std::array<std::byte, kPatternBytes> bytes{};
  EXPECT_FALSE(has_pattern(bytes, 0));
  make_pattern(bytes, 7);
  EXPECT_TRUE(has_pattern(bytes, 7));
  EXPECT_FALSE(has_pattern(bytes, 8));
  bytes[kPatternBytes - 1] ^= std::byte{1};
  EXPECT_FALSE(has_pattern(bytes, 7));
}

}  // namespace
}  // namespace rtrs::probe::hello_test
