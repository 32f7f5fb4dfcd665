#include "tools/urtrsd/storage/missing_list.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace rtrs::daemon::missing_list_test {
namespace {

constexpr Nanos kSecond = 1'000'000'000;
const MissingList::Key kDisk{MissingKind::exported, "disk"};
const MissingList::Key kAddress{MissingKind::address, "10.0.0.1"};

OpenError absent() {
  return {ENOENT, "no such file"};
}

TEST(MissingList, PausesDoubleUpToAMinute) {
  MissingList list;
  EXPECT_EQ(list.next_due(), kNever);
  Nanos now = 5 * kSecond;
  for (const Nanos pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    list.failed(now, kDisk, absent());
    EXPECT_EQ(list.next_due(), now + pause * kSecond);
    EXPECT_TRUE(list.take_due(list.next_due() - 1).empty());
    now = list.next_due();
    EXPECT_EQ(list.take_due(now), std::vector{kDisk});
    EXPECT_EQ(list.next_due(), kNever) << "an attempt is running";
  }
  EXPECT_EQ(list.remove(kDisk), 5 * kSecond);
  EXPECT_EQ(list.remove(kDisk), kNever);
  list.failed(now, kDisk, absent());
  EXPECT_EQ(list.next_due(), now + kSecond) << "a new absence starts with the shortest pause";
}

// Simulates one day in which an attempt is made, and fails, whenever one is due.
TEST(MissingList, OneDayOfAbsenceCausesFewLinesAndAttempts) {
  MissingList list;
  Nanos now = 0;
  std::uint32_t lines = list.failed(now, kDisk, absent());
  std::uint32_t attempts = 1;
  Nanos last_line = 0;
  while (list.next_due() < 24 * 3600 * kSecond) {
    now = list.next_due();
    EXPECT_EQ(list.take_due(now).size(), 1U);
    ++attempts;
    if (!list.failed(now, kDisk, absent())) continue;
    ++lines;
    EXPECT_LE(now - last_line, 64 * 60 * kSecond) << "an hour without a line";
    last_line = now;
  }
  EXPECT_EQ(attempts, list.items().at(kDisk).attempts);
  EXPECT_NEAR(attempts, 24 * 60 + 5, 3);
  EXPECT_EQ(lines, 6U + attempts / 64);
}

TEST(MissingList, ChangedReasonIsLogged) {
  MissingList list;
  EXPECT_TRUE(list.failed(1, kDisk, absent()));
  EXPECT_TRUE(list.failed(2, kDisk, absent())) << "the second attempt";
  EXPECT_FALSE(list.failed(3, kDisk, absent()));
  EXPECT_TRUE(list.failed(4, kDisk, {EACCES, "permission denied"}));
  EXPECT_FALSE(list.failed(5, kDisk, {EACCES, "permission denied"}));
  EXPECT_EQ(list.items().at(kDisk).why.error, EACCES);
  EXPECT_EQ(list.items().at(kDisk).since, 1U);
}

TEST(MissingList, HurriedItemIsDueAtOnceUnlessAnAttemptRuns) {
  MissingList list;
  list.failed(0, kDisk, absent());
  list.failed(0, kAddress, absent());
  list.hurry(7, kDisk);
  EXPECT_EQ(list.take_due(7), std::vector{kDisk});
  list.hurry_all(8);
  EXPECT_EQ(list.take_due(8), std::vector{kAddress}) << "the attempt for the disk still runs";
  list.hurry(9, {MissingKind::exported, "other"});
  EXPECT_EQ(list.next_due(), kNever);
  EXPECT_EQ(list.items().size(), 2U);
}

TEST(MissingList, AnExportAndAnAddressMayHaveTheSameName) {
  MissingList list;
  list.failed(0, {MissingKind::exported, "10.0.0.1"}, absent());
  list.failed(0, kAddress, absent());
  EXPECT_EQ(list.items().size(), 2U);
  EXPECT_NE(list.remove(kAddress), kNever);
  EXPECT_EQ(list.items().size(), 1U);
}

}  // namespace
}  // namespace rtrs::daemon::missing_list_test
