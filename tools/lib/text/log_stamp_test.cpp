#include "tools/lib/text/log_stamp.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace rtrs::tools::log_stamp_test {
namespace {

TEST(LogStamp, HasLocalTimeWithMilliseconds) {
  ::setenv("TZ", "XYZ-2", 1);  // two hours ahead of UTC
  ::tzset();
  const auto time = std::chrono::system_clock::from_time_t(1'772'368'496) + std::chrono::milliseconds(7);
  EXPECT_EQ(log_stamp(time), "2026-03-01T14:34:56.007 ");
}

TEST(LogStamp, JournalIsTheFileInTheVariable) {
  EXPECT_TRUE(is_journal("9:4711", 9, 4711));
  for (const char* other : {"", "9", "9:", "9:471", "9:47110", "8:4711", "09:4711"})
    EXPECT_FALSE(is_journal(other, 9, 4711)) << other;
}

TEST(LogStamp, OtherStreamsAreNotTheJournal) {
  ::setenv("JOURNAL_STREAM", "1:1", 1);
  EXPECT_FALSE(journal_reads_stderr());
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(journal_reads_stderr());
}

}  // namespace
}  // namespace rtrs::tools::log_stamp_test
