#include "tools/urtrs-perf/compare.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tools/urtrs-perf/pattern.hpp"
#include "tools/urtrs-perf/report.hpp"

namespace rtrs::perf::report_test {

namespace {

std::string content_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST(Compare, RatioUsesTheMeanOfBothNeighbours) {
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

TEST(Compare, MetricWithoutAValidRoundIsAFailure) {
  const Verdict good = judge({{10, 11, 10}});
  const Verdict none = judge({{10, 50, 20}});
  EXPECT_EQ(comparison_code({good, good}), kOk);
  EXPECT_EQ(comparison_code({good, none}), kNoVerdict);
  EXPECT_EQ(comparison_code({none, none}), kNoVerdict);
  EXPECT_EQ(kNoVerdict, 3);
}

TEST(Pattern, EveryChangedByteIsFound) {
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

TEST(Pattern, HeadersAreParsedBackAndInvalidOnesRejected) {
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

TEST(Report, RatesAreComputedFromTheWindows) {
  const Result result = sample(1);
  EXPECT_DOUBLE_EQ(result.iops(), 1000);
  EXPECT_DOUBLE_EQ(result.peak_iops(), 1200);
  EXPECT_DOUBLE_EQ(result.median_iops(), 1000);
}

TEST(Report, ColumnsAreThoseOfPerftest) {
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

TEST(Report, JsonIsWrittenCompletelyOrNotAtAll) {
  Options options;
  Report report;
  report.results.push_back(sample(1));
  report.exit_code = kTimedOut;
  report.failure = "no answer for 3 s";
  const std::string path = testing::TempDir() + "urtrs_perf_report_" + std::to_string(::getpid()) + ".json";
  ASSERT_EQ(write_whole(path, to_json(options, report)), 0);
  const auto json = nlohmann::json::parse(content_of(path));
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

TEST(Report, EachPathShowsItsDeviceAndPosting) {
  Options options;
  Report report;
  report.paths = {{"192.0.2.1", "connected", 7, 0, 0, {"mlx5_0", 1, "wr"}},
                  {"192.0.2.2", "waiting", 3, 1, 2, {"rxe0", 1, "send"}},
                  {"192.0.2.3", "connected", 0, 0, 0, {"tcp", 0, ""}}};
  const auto printed = [&] {
    testing::internal::CaptureStdout();
    EXPECT_EQ(Printer(options).end(report), 0);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(printed(),
            " path 192.0.2.1: connected, 7 IOs, 0 taken over, 0 reconnects\n"
            " path 192.0.2.1: over mlx5_0, posted by ibv_wr_*()\n"
            " path 192.0.2.2: waiting, 3 IOs, 1 taken over, 2 reconnects\n"
            " path 192.0.2.2: over rxe0, posted by ibv_post_send()\n"
            " path 192.0.2.3: connected, 0 IOs, 0 taken over, 0 reconnects\n");
  options.csv = true;
  EXPECT_EQ(printed(), "");
  options.csv = false;
  options.json = true;
  const auto json = nlohmann::json::parse(printed());
  const auto told = [&](std::size_t path, const char* key) {
    return json["paths"][path][key].get<std::string>();
  };
  EXPECT_EQ(told(0, "device") + ' ' + told(0, "posting"), "mlx5_0 wr");
  EXPECT_EQ(told(1, "device") + ' ' + told(1, "posting"), "rxe0 send");
  EXPECT_EQ(told(2, "device") + ' ' + told(2, "posting"), "tcp ");
  options.json = false;
  report.paths.resize(1);
  EXPECT_EQ(printed(), " path 192.0.2.1: over mlx5_0, posted by ibv_wr_*()\n") << "only the used posting";
}

TEST(Report, ProviderIsShownOnlyForLibfabric) {
  Options options;
  options.provider = "tcp;ofi_rxm";
  for (const auto& [fabric, provider] : {std::pair{"tcp", ""}, {"verbs", ""}, {"libfabric", "tcp;ofi_rxm"}}) {
    options.fabric = fabric;
    EXPECT_EQ(nlohmann::json::parse(to_json(options, {}))["provider"], provider) << fabric;
  }
}

TEST(Report, SymbolicLinkIsKeptAndItsTargetIsReplaced) {
  const std::string path = testing::TempDir() + "urtrs_perf_link_" + std::to_string(::getpid());
  ASSERT_EQ(::symlink((path + ".target").c_str(), path.c_str()), 0);
  std::ofstream(path + ".target") << "of before, and longer";
  EXPECT_EQ(check_writable(path), 0);
  EXPECT_EQ(write_whole(path, "text"), 0);
  struct stat is {};
  EXPECT_TRUE(::lstat(path.c_str(), &is) == 0 && S_ISLNK(is.st_mode));
  EXPECT_EQ(content_of(path + ".target"), "text");
  EXPECT_EQ(check_writable(path + ".target/out.json"), ENOTDIR);
  ::unlink((path + ".target").c_str());
  ::unlink(path.c_str());
}

TEST(Report, MissingTargetOfALinkIsCreated) {
  const std::string path = testing::TempDir() + "urtrs_perf_first_" + std::to_string(::getpid());
  const std::string name = path.substr(path.rfind('/') + 1);
  ASSERT_EQ(::symlink((name + ".link").c_str(), path.c_str()), 0);
  ASSERT_EQ(::symlink((path + ".target").c_str(), (path + ".link").c_str()), 0);
  EXPECT_EQ(check_writable(path), 0);
  EXPECT_EQ(write_whole(path, "text"), 0);
  for (const std::string& link : {path, path + ".link"}) {
    struct stat is {};
    EXPECT_TRUE(::lstat(link.c_str(), &is) == 0 && S_ISLNK(is.st_mode)) << link;
    ::unlink(link.c_str());
  }
  EXPECT_EQ(content_of(path + ".target"), "text");
  ::unlink((path + ".target").c_str());
  ASSERT_EQ(::symlink("/nonexistent/directory/file", path.c_str()), 0);
  EXPECT_EQ(check_writable(path), ENOENT);
  ::unlink(path.c_str());
}

TEST(Report, FileInDevShmIsReplaced) {
  const std::string path = "/dev/shm/urtrs_perf_" + std::to_string(::getpid());
  if (::access("/dev/shm/.", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  EXPECT_EQ(check_writable(path), 0);
  EXPECT_EQ(write_whole(path, "of before, and longer"), 0);
  EXPECT_EQ(write_whole(path, "text"), 0);
  EXPECT_EQ(content_of(path), "text");
  ::unlink(path.c_str());
}

// If a descriptor such as /dev/stdout refers to a file, other processes may write to that file too. Therefore
// the text must be appended.
TEST(Report, OpenDescriptorIsAppendedTo) {
  const std::string path = testing::TempDir() + "urtrs_perf_open_" + std::to_string(::getpid());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  struct stat before {};
  ASSERT_EQ(::fstat(fd, &before), 0);
  for (const char* folder : {"/dev/fd/", "/proc/self/fd/"}) {
    const std::string number = folder + std::to_string(fd);
    EXPECT_EQ(check_writable(number), 0);
    EXPECT_EQ(write_whole(number, "text\n"), 0);
  }
  struct stat after {};
  ASSERT_EQ(::stat(path.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_EQ(content_of(path), "text\ntext\n");
  ::close(fd);
  ::unlink(path.c_str());
}

TEST(Report, PipeReceivesMoreThanItsCapacity) {
  const std::string path = testing::TempDir() + "urtrs_perf_full_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const std::string text(std::size_t{1} << 20, 'x');
  std::size_t got = 0;
  std::thread reads([&] {
    std::array<char, 4096> room{};
    ::fcntl(reader, F_SETFL, 0);
    pollfd ready{reader, POLLIN, 0};
    ::poll(&ready, 1, -1);
    for (ssize_t count = 0; (count = ::read(reader, room.data(), room.size())) > 0;)
      got += static_cast<std::size_t>(count);
  });
  EXPECT_EQ(write_whole(path, text), 0);
  reads.join();
  EXPECT_EQ(got, text.size());
  ::close(reader);
  ::unlink(path.c_str());
}

TEST(Report, PipeIsKeptAndReceivesTheText) {
  const std::string path = testing::TempDir() + "urtrs_perf_pipe_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(write_whole(path, "x"), ENXIO) << "no process reads the pipe";
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

}  // namespace rtrs::perf::report_test
