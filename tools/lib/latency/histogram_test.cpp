#include "tools/lib/latency/histogram.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using rtrs::tools::Histogram;

namespace histogram_test {
namespace {

double relative_error(std::uint64_t measured, std::uint64_t truth) {
  if (truth == 0) return measured == 0 ? 0.0 : 1.0;
  const double difference = std::abs(static_cast<double>(measured) - static_cast<double>(truth));
  return difference / static_cast<double>(truth);
}

}  // namespace

TEST(Histogram, EmptyHistogramIsAllZero) {
  const Histogram empty;
  EXPECT_EQ(empty.count(), 0u);
  EXPECT_EQ(empty.min(), 0u);
  EXPECT_EQ(empty.max(), 0u);
  EXPECT_EQ(empty.percentile(50), 0u);
  EXPECT_EQ(empty.most_frequent(), 0u);
  EXPECT_EQ(empty.mean(), 0);
  EXPECT_EQ(empty.stdev(), 0);
}

TEST(Histogram, CopyOfTheBucketsHasTheSameCounts) {
  using Coarse = rtrs::Histogram<4>;
  Coarse histogram;
  for (std::uint64_t value = 1; value <= 100'000; value *= 3) histogram.record(value);
  Coarse copy;
  for (std::size_t bucket = 0; bucket < Coarse::kBuckets; ++bucket) copy.add(bucket, histogram.count(bucket));
  EXPECT_EQ(copy.count(), histogram.count());
  for (std::size_t bucket = 0; bucket < Coarse::kBuckets; ++bucket)
    EXPECT_EQ(copy.count(bucket), histogram.count(bucket));
  EXPECT_LT(relative_error(copy.percentile(50), histogram.percentile(50)), 0.063);
  EXPECT_EQ(histogram.count_below(1), 0u);
  EXPECT_EQ(histogram.count_below(1024), 7u);  // counts 1, 3, 9, 27, 81, 243, 729
  EXPECT_EQ(histogram.count_below(std::uint64_t{1} << 60), histogram.count());
}

TEST(Histogram, BucketsCoverAllValuesWithoutGapOrOverlap) {
  EXPECT_EQ(Histogram::bucket_of(0), 0u);
  EXPECT_EQ(Histogram::bucket_of(~std::uint64_t{0}), Histogram::kBuckets - 1);
  for (std::size_t bucket = 1; bucket < Histogram::kBuckets; ++bucket) {
    const std::uint64_t lowest = Histogram::lowest_of(bucket);
    ASSERT_EQ(Histogram::bucket_of(lowest), bucket);
    ASSERT_EQ(Histogram::bucket_of(lowest - 1), bucket - 1);
    ASSERT_EQ(Histogram::bucket_of(Histogram::middle_of(bucket)), bucket);
  }
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 100; ++value) histogram.record(value);
  EXPECT_EQ(histogram.percentile(0), 1u);
  EXPECT_EQ(histogram.percentile(1), 1u);
  EXPECT_EQ(histogram.percentile(50), 50u);
  EXPECT_EQ(histogram.percentile(99), 99u);
  EXPECT_EQ(histogram.percentile(99.9), 100u);
  EXPECT_EQ(histogram.percentile(100), 100u);
  EXPECT_DOUBLE_EQ(histogram.mean(), 50.5);
  EXPECT_NEAR(histogram.stdev(), 28.866, 0.001);
}

TEST(Histogram, MostFrequentIsTheModeNotTheMiddle) {
  Histogram histogram;
  for (int i = 0; i < 10; ++i) histogram.record(12);
  for (std::uint64_t value = 20; value < 50; ++value) histogram.record(value);
  EXPECT_EQ(histogram.most_frequent(), 12u);
}

TEST(Histogram, PercentilesStayWithinTheRecordedRange) {
  Histogram histogram;
  histogram.record(1'000'001);
  EXPECT_EQ(histogram.percentile(50), 1'000'001u);
  EXPECT_EQ(histogram.percentile(99.9), 1'000'001u);
  EXPECT_EQ(histogram.most_frequent(), 1'000'001u);
}

TEST(Histogram, ClearedHistogramIsEmpty) {
  Histogram histogram;
  histogram.record(7);
  histogram.clear();
  EXPECT_EQ(histogram.count(), 0u);
  histogram.record(9);
  EXPECT_EQ(histogram.min(), 9u);
  EXPECT_EQ(histogram.max(), 9u);
}

RC_GTEST_PROP(HistogramProperty, PercentilesAreNearTheSortedValues, ()) {
  const auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint64_t>>(
      rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 40)));
  const double percent = *rc::gen::inRange(0, 1001) / 10.0;
  Histogram histogram;
  for (const std::uint64_t value : values) histogram.record(value);
  std::vector<std::uint64_t> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = std::max<std::size_t>(
      1, static_cast<std::size_t>(std::ceil(static_cast<double>(sorted.size()) * percent / 100)));
  RC_ASSERT(relative_error(histogram.percentile(percent), sorted[rank - 1]) < 1.0 / 128);
  RC_ASSERT(histogram.min() == sorted.front());
  RC_ASSERT(histogram.max() == sorted.back());
}

RC_GTEST_PROP(HistogramProperty, MergingEqualsRecordingTogether, ()) {
  const auto generator =
      rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 1u << 30));
  const auto first = *generator;
  const auto second = *generator;
  Histogram a;
  Histogram b;
  Histogram both;
  for (const std::uint64_t value : first) a.record(value), both.record(value);
  for (const std::uint64_t value : second) b.record(value), both.record(value);
  a.merge(b);
  RC_ASSERT(a.count() == both.count());
  RC_ASSERT(a.min() == both.min());
  RC_ASSERT(a.max() == both.max());
  for (const double percent : {1.0, 50.0, 99.0, 99.9})
    RC_ASSERT(a.percentile(percent) == both.percentile(percent));
}
}  // namespace histogram_test
