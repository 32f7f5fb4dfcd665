#include "backends/options/quantity.hpp"

#include <gtest/gtest.h>

namespace rtrs::options::quantity_test {
namespace {

constexpr const char* kNoDuration =
    " is not a duration: expected a number of ms, s, m or h, e.g. 500ms, 30s, 2m";
constexpr const char* kNoSize =
    " is not a size: expected a number of bytes, k, M, G or T, e.g. 4096, 64k, 1G";

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

TEST(Durations, NumbersWithoutAUnitAreSeconds) {
  EXPECT_EQ(parse_duration("10"), seconds(10));
  EXPECT_EQ(parse_duration("0.5"), milliseconds(500));
  EXPECT_EQ(parse_duration(".5s"), milliseconds(500));
  EXPECT_EQ(parse_duration("1e3"), seconds(1000));
  EXPECT_EQ(parse_duration("7ns"), 7U);
  EXPECT_EQ(parse_duration("1.5us"), 1500U);
  EXPECT_EQ(parse_duration("250ms"), milliseconds(250));
  EXPECT_EQ(parse_duration("5s"), seconds(5));
  EXPECT_EQ(parse_duration("2m"), seconds(120));
  EXPECT_EQ(parse_duration("2min"), seconds(120));
  EXPECT_EQ(parse_duration("1.5h"), seconds(5400));
  EXPECT_EQ(parse_duration("1000000m"), seconds(60'000'000));
  EXPECT_EQ(parse_duration("1e9"), seconds(1'000'000'000));
  EXPECT_EQ(parse_duration("876000h"), seconds(876'000ULL * 3600));
  EXPECT_EQ(parse_duration("0"), 0U);
  EXPECT_EQ(parse_duration("-0"), 0U);
}

TEST(Durations, InvalidTextIsRejectedWithAnExample) {
  for (const char* wrong :
       {"",    " ",  "s",  "ms", "soon", "12x", "-1",   "-1s",  "+1",  " 5s", "5 s",  "5s ", "5S",
        "5MS", "5M", "5H", "5d", "5ss",  "5s3", "1,5s", "0x10", "nan", "inf", "-inf", "infs"})
    EXPECT_EQ(parse_duration(wrong).error(), quoted(wrong) + kNoDuration);
  EXPECT_EQ(parse_duration(std::string("5s\0", 3)).error(), quoted(std::string("5s\0", 3)) + kNoDuration);
}

TEST(Durations, OutOfRangeValuesAreRejected) {
  for (const char* wrong : {"876001h", "1e30", "1e30ns", "99999999999999999999", "1e308h"})
    EXPECT_EQ(parse_duration(wrong).error(), quoted(wrong) + " is too long: durations are at most 876000h");
  EXPECT_EQ(parse_duration("1e309").error(), quoted("1e309") + kNoDuration);
}

TEST(Durations, ParsePositiveDurationRejectsZero) {
  EXPECT_EQ(parse_positive_duration("1ns"), 1U);
  for (const char* wrong : {"0", "0ms", "0.1ns"})
    EXPECT_EQ(parse_positive_duration(wrong).error(),
              quoted(wrong) + " is too short: it must be greater than 0");
  EXPECT_EQ(parse_positive_duration("x").error(), quoted("x") + kNoDuration);
}

TEST(Sizes, UnitsArePowersOf1024) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("512"), 512U);
  EXPECT_EQ(parse_size("512B"), 512U);
  for (const char* same : {"4k", "4K", "4KB", "4kB", "4KiB", "4kib"})
    EXPECT_EQ(parse_size(same), 4096U) << same;
  EXPECT_EQ(parse_size("2m"), 2U << 20);
  EXPECT_EQ(parse_size("3MiB"), 3U << 20);
  EXPECT_EQ(parse_size("1g"), 1U << 30);
  EXPECT_EQ(parse_size("2TB"), 2ULL << 40);
  EXPECT_EQ(parse_size("3P"), 3ULL << 50);
  EXPECT_EQ(parse_size("15E"), 15ULL << 60);
  EXPECT_EQ(parse_size("18446744073709551615"), ~0ULL);
}

TEST(Sizes, TheUnitOfAPlainNumberIsConfigurable) {
  EXPECT_EQ(parse_size("8", 1U << 20), 8U << 20);
  EXPECT_EQ(parse_size("8k", 1U << 20), 8192U);
  EXPECT_EQ(parse_size("8B", 1U << 20), 8U);
}

TEST(Sizes, InvalidTextIsRejectedWithAnExample) {
  for (const char* wrong : {"",   " ",   "k",   "K",   "B",    "4kk",  "1KK", "4q",  "1X",  "-1",
                            "+1", " 4k", "4 k", "4k ", "1.5k", "0x10", "4i",  "4ki", "4Bi", "4KiBs"})
    EXPECT_EQ(parse_size(wrong).error(), quoted(wrong) + kNoSize);
}

TEST(Sizes, OutOfRangeValuesAreRejected) {
  for (const char* wrong :
       {"16E", "99999999T", "99999999999999999999", "18446744073709551616", "18446744073709551615k"})
    EXPECT_EQ(parse_size(wrong).error(), quoted(wrong) + " is too large: sizes are less than 16E");
  EXPECT_FALSE(parse_size("18446744073709551615", 2));
}

}  // namespace
}  // namespace rtrs::options::quantity_test
