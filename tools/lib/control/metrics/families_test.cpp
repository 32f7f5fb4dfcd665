#include "tools/lib/control/metrics/families.hpp"

#include <gtest/gtest.h>

namespace rtrs::metrics::families_test {
namespace {

TEST(Families, MetricsWithTheSameNameShareOneHelp) {
  Families all;
  all.gauge("up", "is it?", 1, {{"session", "a"}});
  all.counter("ios_total", "IOs", 7);
  all.gauge("up", "is it?", 0.25, {{"session", "b"}, {"path", "0"}});
  EXPECT_EQ(all.text(),
            "# HELP up is it?\n# TYPE up gauge\nup{session=\"a\"} 1\nup{session=\"b\",path=\"0\"} 0.25\n"
            "# HELP ios_total IOs\n# TYPE ios_total counter\nios_total 7\n");
}

TEST(Families, LargeCounterIsExact) {
  Families all;
  all.counter("bytes_total", "bytes", ~std::uint64_t{0});
  EXPECT_NE(all.text().find("bytes_total 18446744073709551615\n"), std::string::npos);
}

TEST(Families, QuotesAndNewlinesAreEscaped) {
  Families all;
  all.gauge("up", "one\nline", 1, {{"name", "a\"} 2\nup 3\\\xff"}});
  const std::string text = all.text();
  EXPECT_EQ(text.find("\nup 3"), std::string::npos) << text;
  EXPECT_NE(text.find("# HELP up one\\nline\n"), std::string::npos) << text;
  EXPECT_NE(text.find("up{name=\"a\\\"} 2"), std::string::npos) << text;
}

TEST(Families, HistogramBucketsAreCumulative) {
  ServiceTimes::Times times;
  for (const std::uint64_t time : {1'000U, 10'000U, 1'000'000'000U}) times.record(time);
  Families all;
  all.histogram("took_seconds", "time", times, {{"path", "0"}});
  const std::string text = all.text();
  EXPECT_NE(text.find("took_seconds_count{path=\"0\"} 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("took_seconds_sum{path=\"0\"} 1.000011\n"), std::string::npos) << text;
  EXPECT_NE(text.find("took_seconds_bucket{path=\"0\",le=\"8.192e-06\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("took_seconds_bucket{path=\"0\",le=\"+Inf\"} 3\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace rtrs::metrics::families_test
