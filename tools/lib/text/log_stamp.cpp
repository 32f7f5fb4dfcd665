#include "tools/lib/text/log_stamp.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>

namespace rtrs::tools {

std::string log_stamp(std::chrono::system_clock::time_point time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time - whole).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03} ",
                     fmt::localtime(std::chrono::system_clock::to_time_t(whole)), ms);
}

bool is_journal(std::string_view journal_stream, std::uint64_t device, std::uint64_t inode) {
  return journal_stream == fmt::format("{}:{}", device, inode);
}

bool journal_reads_stderr() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat file {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &file) == 0 &&
         is_journal(stream, file.st_dev, file.st_ino);
}

bool stderr_is_null() {
  struct stat file {};
  return ::fstat(STDERR_FILENO, &file) == 0 && S_ISCHR(file.st_mode) && file.st_rdev == ::makedev(1, 3);
}

}  // namespace rtrs::tools
