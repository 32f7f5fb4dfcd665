#include "tools/lib/text/terminal/progress_line.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "tools/lib/text/terminal/terminal.hpp"

namespace rtrs::tools::progress_line_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Log = ProgressLine::Log;

ProgressLine::Time now;

// Returns the bytes that `work` wrote through a ProgressLine with `columns` columns.
std::string written(Log log, std::size_t columns, const std::function<void(ProgressLine&)>& work) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  {
    ProgressLine line(
        log, stream, [] { return now; }, columns);
    work(line);
  }
  std::fclose(stream);
  const std::string result(text, size);
  std::free(text);
  return result;
}

TEST(ProgressLine, IsOverwrittenInPlaceAndClearedAtTheEnd) {
  EXPECT_EQ(written(Log::silent, 80,
                    [](ProgressLine& line) {
                      line.show("one");
                      line.show("two");
                    }),
            "\r\033[Kone\r\033[Ktwo\r\033[K");
  EXPECT_EQ(written(Log::lines, 80,
                    [](ProgressLine& line) {
                      line.show("one");
                      line.clear();
                      line.clear();
                    }),
            "\r\033[Kone\r\033[K");
}

TEST(ProgressLine, IsCutToTheWidthOfTheTerminal) {
  EXPECT_EQ(written(Log::lines, 8, [](ProgressLine& line) { line.show("1234567"); }),
            "\r\033[K1234567\r\033[K");
  EXPECT_EQ(written(Log::lines, 8, [](ProgressLine& line) { line.show("12345678"); }),
            "\r\033[K1234567\r\033[K");
  EXPECT_EQ(written(Log::lines, 4, [](ProgressLine& line) { line.show("a\u00e4\u20acbc"); }),
            "\r\033[Ka\u00e4\u20ac\r\033[K");
}

TEST(ProgressLine, OtherStreamsGetALineEveryTenSeconds) {
  EXPECT_EQ(written(Log::lines, 0,
                    [](ProgressLine& line) {
                      line.show("too early");
                      now += seconds(10);
                      EXPECT_TRUE(line.is_due());
                      line.show("one");
                      EXPECT_FALSE(line.is_due());
                      now += milliseconds(9999);
                      line.show("too early");
                      now += milliseconds(1);
                      line.show("two");
                    }),
            "one\ntwo\n");
  EXPECT_EQ(written(Log::silent, 0,
                    [](ProgressLine& line) {
                      now += seconds(100);
                      EXPECT_FALSE(line.is_due());
                      line.show("one");
                    }),
            "");
}

TEST(ProgressLine, IsDueTenTimesASecondOnATerminal) {
  written(Log::silent, 80, [](ProgressLine& line) {
    EXPECT_FALSE(line.is_due());
    now += milliseconds(100);
    EXPECT_TRUE(line.is_due());
    line.show("one");
    EXPECT_FALSE(line.is_due());
  });
}

TEST(ProgressLine, ShowsProgressRateAndRemainingTime) {
  EXPECT_EQ(progress_text(1234, 10000, "seeds", 5), "12 %, 1,234 of 10,000 seeds, 247/s, 36 s left");
  EXPECT_EQ(progress_text(0, 10, "seeds", 5), "0 %, 0 of 10 seeds");
  EXPECT_EQ(progress_text(3, 10, "MiB", 0), "30 %, 3 of 10 MiB");
  EXPECT_EQ(progress_text(20, 10, "seeds", 2), "100 %, 20 of 10 seeds, 10/s, 0 s left");
  EXPECT_EQ(progress_text(1, 0, "MiB", 0), "1 of 0 MiB");
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
}

TEST(Terminal, FileIsNoTerminal) {
  std::FILE* const file = std::tmpfile();
  EXPECT_FALSE(is_terminal(file));
  EXPECT_FALSE(wants_color(file));
  EXPECT_EQ(columns_of(file), 0U);
  std::fclose(file);
}

// A new pseudo-terminal.
class Pty {
 public:
  Pty() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    stream_ = std::fopen(::ptsname(master_), "w");
  }
  ~Pty() {
    if (stream_ != nullptr) std::fclose(stream_);
    ::close(master_);
  }
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;
  std::FILE* stream() const { return stream_; }

 private:
  int master_;
  std::FILE* stream_ = nullptr;
};

TEST(Terminal, ColorNeedsATerminalWithoutNoColor) {
  const Pty pty;
  ASSERT_NE(pty.stream(), nullptr);
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(is_terminal(pty.stream()));
  EXPECT_TRUE(wants_color(pty.stream()));
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(wants_color(pty.stream()));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(wants_color(pty.stream()));
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_terminal(pty.stream()));
  EXPECT_FALSE(wants_color(pty.stream()));
}

}  // namespace
}  // namespace rtrs::tools::progress_line_test
