// Tests that buckets lose no count when they are merged, and that memory does not grow with the run.
#include "tools/lib/trace/summary/timeline.hpp"

#include <gtest/gtest.h>

namespace rtrs::trace::timeline_test {
namespace {

std::uint64_t completed(const Timeline& timeline) {
  std::uint64_t sum = 0;
  for (const auto& bucket : timeline.buckets()) sum += bucket.completed;
  return sum;
}
constexpr std::uint8_t bit(spec::PathState state) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(state));
}

TEST(Timeline, LongRunKeepsEveryCount) {
  Timeline timeline;
  for (Nanos i = 0; i < 100'000; ++i) {
    timeline.at(microseconds(50) + i * microseconds(777));
    timeline.ended(microseconds(100) + i, i % 1000 == 0);
  }
  EXPECT_LE(timeline.buckets().size(), Timeline::kBuckets);
  EXPECT_GT(timeline.buckets().size(), Timeline::kBuckets / 2) << "buckets are not wider than needed";
  EXPECT_EQ(timeline.from(), microseconds(50));
  EXPECT_EQ(completed(timeline), 100'000U);
  std::uint64_t failed = 0;
  Nanos longest = 0;
  for (const auto& bucket : timeline.buckets()) {
    failed += bucket.failed;
    longest = std::max(longest, bucket.longest);
    ASSERT_NE(bucket.took, nullptr);
    EXPECT_LE(bucket.median(), bucket.longest);
    EXPECT_NEAR(static_cast<double>(bucket.median()), static_cast<double>(bucket.longest),
                static_cast<double>(bucket.longest) / 10);
  }
  EXPECT_EQ(failed, 100U);
  EXPECT_EQ(longest, microseconds(100) + 99'999);
}

TEST(Timeline, SilenceKeepsStateAndRequestsInFlight) {
  Timeline timeline;
  timeline.at(0);
  timeline.state(1, spec::PathState::connected);
  timeline.in_flight(5);
  timeline.at(microseconds(500));
  timeline.state(1, spec::PathState::waiting);
  timeline.in_flight(2);
  const auto& buckets = timeline.buckets();
  ASSERT_EQ(buckets.size(), 501U);
  EXPECT_EQ(buckets[300].in_flight, 5U);
  EXPECT_EQ(buckets[300].states.at(1), bit(spec::PathState::connected));
  EXPECT_EQ(buckets[500].in_flight, 5U) << "the most within the bucket";
  EXPECT_EQ(buckets[500].states.at(1), bit(spec::PathState::connected) | bit(spec::PathState::waiting));
  timeline.at(microseconds(510));
  EXPECT_EQ(timeline.buckets()[510].in_flight, 2U);
  EXPECT_EQ(timeline.buckets()[510].states.at(1), bit(spec::PathState::waiting));
}

TEST(Timeline, HostileTimesAndPathsAreBounded) {
  Timeline timeline;
  timeline.at(5);
  timeline.at(~Nanos{0});
  timeline.ended(~Nanos{0}, false);
  timeline.at(7);  // earlier than the last time
  timeline.ended(1, false);
  timeline.state(Timeline::kPaths, spec::PathState::connected);
  EXPECT_LE(timeline.buckets().size(), Timeline::kBuckets);
  EXPECT_EQ(timeline.buckets().back().completed, 2U);
  EXPECT_TRUE(timeline.buckets().back().states.empty());
}

TEST(Timeline, SumOfClientsWithDifferentClocks) {
  Timeline first, second;
  for (Nanos i = 0; i < 10; ++i) {
    first.at(seconds(i));
    first.in_flight(3);
    first.ended(1000, false);
    second.at(seconds(5000 + i));
    second.in_flight(4);
    second.ended(3000, true);
  }
  second.state(0, spec::PathState::connected);
  first.state(0, spec::PathState::waiting);
  const std::uint64_t back = 0 - seconds(4998);  // the second client began 2 s later
  const Timeline sum = Timeline::sum_of({{&first, 0}, {&second, back}}, 0);
  EXPECT_LE(sum.buckets().size(), Timeline::kBuckets);
  EXPECT_EQ(completed(sum), 20U);
  const auto at = [&sum](Nanos time) -> const Timeline::Bucket& {
    return sum.buckets().at(static_cast<std::size_t>((time - sum.from()) / sum.width()));
  };
  EXPECT_EQ(at(seconds(1)).in_flight, 3U);
  EXPECT_EQ(at(seconds(6)).in_flight, 7U);
  EXPECT_EQ(at(seconds(11) - milliseconds(50)).in_flight, 7U) << "requests of the first client have no end";
  const auto until = static_cast<std::int64_t>(seconds(100));
  const Timeline longer = Timeline::sum_of({{&first, 0}, {&second, back}}, until);
  EXPECT_EQ(completed(longer), 20U);
  EXPECT_EQ(longer.buckets().back().in_flight, 7U);
  EXPECT_GT(longer.buckets().size() * longer.width(), seconds(100));
  EXPECT_EQ(longer.buckets().back().states,
            (std::vector<std::uint8_t>{bit(spec::PathState::waiting), bit(spec::PathState::connected)}));
  EXPECT_EQ(sum.buckets().back().states.at(1), bit(spec::PathState::connected));
  EXPECT_TRUE(Timeline::sum_of({}, until).empty());
  Timeline far;
  far.at(0);
  EXPECT_LE(Timeline::sum_of({{&first, 0}, {&far, ~0ULL >> 1}, {&far, 1ULL << 63}}, until).buckets().size(),
            Timeline::kBuckets);
}

}  // namespace
}  // namespace rtrs::trace::timeline_test
