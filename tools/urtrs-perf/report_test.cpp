#include "tools/urtrs-perf/compare.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/urtrs-perf/pattern.hpp"
#include "tools/urtrs-perf/report.hpp"

namespace rtrs::perf {

TEST(Compare, TheRatioIsAgainstTheMeanOfBothNeighbours) {
  EXPECT_DOUBLE_EQ((Round{10, 12, 14}.ratio()), 1.0);
  EXPECT_FALSE((Round{100, 1, 114}.noisy()));
  EXPECT_TRUE((Round{100, 1, 116}.noisy()));
  EXPECT_TRUE((Round{116, 1, 100}.noisy()));
}

TEST(Compare, NoisyRoundsDoNotCount) {
  const Verdict verdict = judge({{10, 11, 10}, {10, 50, 20}, {10, 13, 10}, {10, 12, 10}});
  EXPECT_EQ(verdict.valid, 3u);
  EXPECT_DOUBLE_EQ(verdict.median, 1.2);
  EXPECT_DOUBLE_EQ(verdict.least, 1.1);
  EXPECT_DOUBLE_EQ(verdict.most, 1.3);
  EXPECT_EQ(judge({{10, 50, 20}}).valid, 0u);
}

TEST(Compare, AFigureWithoutARoundThatCountsIsNoSuccess) {
  const Verdict good = judge({{10, 11, 10}});
  const Verdict none = judge({{10, 50, 20}});
  EXPECT_EQ(comparison_code({good, good}), kOk);
  EXPECT_EQ(comparison_code({good, none}), kNoVerdict);
  EXPECT_EQ(comparison_code({none, none}), kNoVerdict);
  EXPECT_EQ(kNoVerdict, 3);
}

TEST(Pattern, AnyChangedByteIsFound) {
  for (const std::size_t size : {1u, 7u, 8u, 9u, 64u, 100u}) {
    std::vector<std::byte> data(size);
    fill_pattern(data, 4096, 7);
    EXPECT_FALSE(first_difference(data, 4096, 7).has_value());
    for (std::size_t at = 0; at < size; ++at) {
      data[at] ^= std::byte{1};
      EXPECT_EQ(first_difference(data, 4096, 7), at);
      data[at] ^= std::byte{1};
    }
    EXPECT_TRUE(first_difference(data, 8192, 7).has_value());
    EXPECT_TRUE(first_difference(data, 4096, 8).has_value());
  }
}

TEST(Pattern, HeadersComeBackAndOthersAreRefused) {
  std::array<std::byte, PerfHeader::kBytes> bytes;
  encode(PerfHeader{true, 1u << 20, 99}, bytes);
  const auto header = parse_header(bytes);
  ASSERT_TRUE(header.has_value());
  EXPECT_TRUE(header->verify);
  EXPECT_EQ(header->offset, 1u << 20);
  EXPECT_EQ(header->seed, 99u);
  EXPECT_FALSE(parse_header(std::span(bytes).first(23)).has_value());
  bytes[4] = std::byte{2};
  EXPECT_FALSE(parse_header(bytes).has_value());
  encode(PerfHeader{}, bytes);
  bytes[0] = std::byte{0};
  EXPECT_FALSE(parse_header(bytes).has_value());
}

namespace {

Result sample(unsigned iodepth) {
  Result result;
  result.bytes = 4096;
  result.iodepth = iodepth;
  result.iterations = 1000;
  result.elapsed = seconds(1);
  for (int i = 0; i < 1000; ++i) result.latency.record(10'000);
  result.windows = {40, 50, 60};
  return result;
}

}  // namespace

TEST(Report, RatesAreOfTheWindows) {
  const Result result = sample(1);
  EXPECT_DOUBLE_EQ(result.iops(), 1000);
  EXPECT_DOUBLE_EQ(result.peak_iops(), 1200);
  EXPECT_DOUBLE_EQ(result.median_iops(), 1000);
}

TEST(Report, ColumnsArePerftests) {
  Options options;
  EXPECT_NE(
      table_header(options).find("#bytes   #iterations  t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] "
                                 "t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]\n"),
      std::string::npos);
  EXPECT_EQ(table_row(sample(1)),
            " 4096     1000         10.00       10.00       10.00           10.00       0.00          10.00  "
            "          "
            "    10.00\n");
  options.iodepth = 32;
  EXPECT_NE(table_header(options).find("BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps] IOPS\n"),
            std::string::npos);
  EXPECT_EQ(table_row(sample(32)),
            " 4096     1000         4.69             3.91                0.001000      1000\n");
}

TEST(Report, JsonIsWrittenWholeOrNotAtAll) {
  Options options;
  Report report;
  report.results.push_back(sample(1));
  report.exit_code = kTimedOut;
  report.failure = "no answer for 3 s";
  const std::string path = testing::TempDir() + "urtrs_perf_report_" + std::to_string(::getpid()) + ".json";
  ASSERT_EQ(write_whole(path, to_json(options, report)), 0);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const auto json = nlohmann::json::parse(text.str());
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["results"][0]["latency_usec"]["p50"], 10.0);
  EXPECT_EQ(json["error"]["message"], "no answer for 3 s");
  EXPECT_EQ(json["exit_code"], 4);
  ::unlink(path.c_str());
  EXPECT_NE(write_whole("/nonexistent/directory/file", "x"), 0);
  EXPECT_EQ(check_writable("/nonexistent/directory/file"), ENOENT);
  EXPECT_EQ(check_writable(path), 0);
  EXPECT_EQ(check_writable("out.json"), 0);
  EXPECT_EQ(check_writable("/"), EISDIR);
}

TEST(Report, ALinkStaysOneAndItsTargetIsReplaced) {
  const std::string path = testing::TempDir() + "urtrs_perf_link_" + std::to_string(::getpid());
  ASSERT_EQ(::symlink((path + ".target").c_str(), path.c_str()), 0);
  std::ofstream(path + ".target") << "of before, and longer";
  EXPECT_EQ(check_writable(path), 0);
  EXPECT_EQ(write_whole(path, "text"), 0);
  struct stat is {};
  EXPECT_TRUE(::lstat(path.c_str(), &is) == 0 && S_ISLNK(is.st_mode));
  std::stringstream text;
  text << std::ifstream(path + ".target").rdbuf();
  EXPECT_EQ(text.str(), "text");
  EXPECT_EQ(check_writable(path + ".target/out.json"), ENOTDIR);
  ::unlink((path + ".target").c_str());
  ::unlink(path.c_str());
}

TEST(Report, APipeStaysOneAndGetsTheText) {
  const std::string path = testing::TempDir() + "urtrs_perf_pipe_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(write_whole(path, "x"), ENXIO) << "nobody reads it";
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_EQ(check_writable(path), 0);
  EXPECT_EQ(write_whole(path, "text"), 0);
  std::array<char, 8> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 4);
  EXPECT_STREQ(got.data(), "text");
  ::close(reader);
  struct stat is {};
  EXPECT_TRUE(::lstat(path.c_str(), &is) == 0 && S_ISFIFO(is.st_mode));
  ::unlink(path.c_str());
}

}  // namespace rtrs::perf
