#include "core/base/crc32c.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace crc32c_test {
namespace {

using rtrs::crc32c;
using rtrs::crc32c_portable;

// Test vectors of RFC 3720, appendix B.4.
TEST(Crc32c, KnownAnswers) {
  std::array<unsigned char, 32> bytes{};
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x8a9136aaU);
  bytes.fill(0xff);
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x62a8ab43U);
  for (unsigned i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283U);
  EXPECT_EQ(crc32c_portable("123456789", 9), 0xe3069283U);
  EXPECT_EQ(crc32c("", 0), 0U);
}

// Lengths around each block size of the fast code, at every alignment of the data.
TEST(Crc32c, BothImplementationsAgreeAtEveryLength) {
  std::vector<unsigned char> bytes(12'400);
  unsigned value = 1;
  for (unsigned char& one : bytes)
    one = static_cast<unsigned char>((value = value * 1103515245 + 12345) >> 16);
  std::vector<std::size_t> lengths;
  for (std::size_t n = 0; n < 420; ++n) lengths.push_back(n);
  for (const std::size_t n : {3U * 1360, 6U * 1360, 9U * 1360})
    for (std::size_t near = n - 9; near < n + 60; ++near) lengths.push_back(near);
  for (const std::size_t n : lengths)
    for (std::size_t from = 0; from < 8; ++from)
      ASSERT_EQ(crc32c(bytes.data() + from, n, 77), crc32c_portable(bytes.data() + from, n, 77)) << n;
}

TEST(Crc32c, ContinuesFromAPreviousCrc) {
  std::vector<unsigned char> bytes(5'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 256);
  const std::uint32_t whole = crc32c_portable(bytes.data(), bytes.size());
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 37)
    ASSERT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, crc32c(bytes.data(), cut)), whole) << cut;
}

}  // namespace
}  // namespace crc32c_test
