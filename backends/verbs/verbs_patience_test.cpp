#include "backends/verbs/verbs_patience.hpp"

#include <gtest/gtest.h>

namespace rtrs::verbs::verbs_patience_test {
namespace {

constexpr Nanos of(unsigned exponent) {
  return Nanos{4096} << exponent;
}

TEST(VerbsPatience, DevicesAreIdentifiedByVendorAndPart) {
  EXPECT_EQ(timer_kind(0xffffff, 0), TimerKind::exact);
  EXPECT_EQ(timer_kind(0x02c9, 4103), TimerKind::mlx4) << "ConnectX-3 Pro";
  EXPECT_EQ(timer_kind(0x02c9, 4113), TimerKind::mlx5) << "Connect-IB";
  EXPECT_EQ(timer_kind(0x02c9, 4129), TimerKind::mlx5) << "ConnectX-7";
  EXPECT_EQ(timer_kind(0x14e4, 0x1750), TimerKind::standard);
}

TEST(VerbsPatience, TimeIncludesTheFirstTransmission) {
  const Patience soft = patience(TimerKind::exact, {17, 6});
  EXPECT_EQ(soft.least, 7 * of(17));
  EXPECT_EQ(soft.most, soft.least);
  EXPECT_EQ(seconds_text(soft.most), "3.8 s");
}

TEST(VerbsPatience, HardwareMayTakeFourTimesAsLong) {
  const Patience hard = patience(TimerKind::standard, {14, 7});
  EXPECT_EQ(hard.least, 8 * of(14));
  EXPECT_EQ(hard.most, 4 * hard.least);
}

TEST(VerbsPatience, MellanoxFirmwareHasAMinimumTimeout) {
  EXPECT_EQ(patience(TimerKind::mlx5, {8, 6}).least, 7 * of(16));
  EXPECT_EQ(patience(TimerKind::mlx5, {18, 6}).least, 7 * of(18));
  EXPECT_EQ(patience(TimerKind::mlx4, {8, 6}).least, 7 * of(17));
  EXPECT_EQ(patience(TimerKind::standard, {8, 6}).least, 7 * of(8));
}

// The table is in docs/fabric.md, section "How long a dead peer is tried".
TEST(VerbsPatience, MatchesTheTableInTheDocumentation) {
  const auto told = [](TimerKind kind, std::uint8_t timeout) {
    const Patience time = patience(kind, {timeout, 6});
    return seconds_text(time.least) + " to " + seconds_text(time.most);
  };
  EXPECT_EQ(told(TimerKind::exact, 17), "3.8 s to 3.8 s");
  EXPECT_EQ(told(TimerKind::exact, 14), "0.5 s to 0.5 s");
  EXPECT_EQ(told(TimerKind::exact, 8), "7 ms to 7 ms");
  EXPECT_EQ(told(TimerKind::mlx5, 17), "3.8 s to 15.0 s");
  EXPECT_EQ(told(TimerKind::mlx5, 14), "1.9 s to 7.5 s");
  EXPECT_EQ(told(TimerKind::mlx5, 8), "1.9 s to 7.5 s");
  EXPECT_EQ(told(TimerKind::mlx4, 8), "3.8 s to 15.0 s");
  EXPECT_EQ(told(TimerKind::standard, 14), "0.5 s to 1.9 s");
  EXPECT_EQ(told(TimerKind::standard, 8), "7 ms to 29 ms");
}

TEST(VerbsPatience, InfiniteRetriesNeverTimeOut) {
  EXPECT_EQ(patience(TimerKind::exact, {17, 7}).least, kNever);
  EXPECT_EQ(patience(TimerKind::mlx5, {0, 3}).most, kNever);
  EXPECT_NE(patience(TimerKind::mlx5, {17, 7}).most, kNever);
  EXPECT_NE(patience(TimerKind::standard, {31, 7}).most, kNever) << "281474 s do not overflow";
  EXPECT_EQ(seconds_text(kNever), "for ever");
  EXPECT_EQ(seconds_text(milliseconds(7)), "7 ms");
}

TEST(VerbsPatience, MaxTimeoutIsTheGreatestThatEndsInTime) {
  const std::uint8_t found = max_timeout_within(TimerKind::mlx5, 6, seconds(35));
  EXPECT_LE(patience(TimerKind::mlx5, {found, 6}).most, seconds(35));
  EXPECT_GT(patience(TimerKind::mlx5, {static_cast<std::uint8_t>(found + 1), 6}).most, seconds(35));
  EXPECT_EQ(max_timeout_within(TimerKind::mlx5, 6, seconds(1)), 0) << "the minimum alone takes longer";
  EXPECT_EQ(max_timeout_within(TimerKind::exact, 7, seconds(35)), 0);
}

}  // namespace
}  // namespace rtrs::verbs::verbs_patience_test
