#include "tools/lib/trace/command/follow.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "core/record/format.hpp"

namespace rtrs::tools {

namespace {

volatile std::sig_atomic_t interrupted = 0;

void catch_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = SA_RESETHAND;
  ::sigaction(SIGINT, &action, nullptr);
}

std::string numbered(const std::string& base, unsigned number) {
  return number == 0 ? base : base + '.' + std::to_string(number);
}

constexpr auto kBetweenReads = std::chrono::milliseconds(50);
// A recorder completes a file before it renames it, so the next file may appear a little later.
constexpr auto kForNextFile = std::chrono::seconds(1);

}  // namespace

std::string next_of_rotation(int fd, const std::string& base) {
  struct stat mine {};
  struct stat other {};
  if (::fstat(fd, &mine) != 0) return {};
  std::string newer;
  for (unsigned number = 0;; ++number) {
    const std::string name = numbered(base, number);
    if (::stat(name.c_str(), &other) != 0) {
      if (number != 0) return {};
      continue;  // the recorder is between renaming the newest file and beginning the next
    }
    if (other.st_ino == mine.st_ino && other.st_dev == mine.st_dev) return newer;
    newer = name;
  }
}

FollowSource::FollowSource(int fd, std::string base, Patience patience)
    : fd_(fd), base_(std::move(base)), patience_(patience) {
  if (patience.count() != 0) catch_interrupt();
}

bool FollowSource::is_over(std::chrono::steady_clock::duration waited) {
  if (interrupted != 0 || waited >= patience_) return true;
  const bool has_end = std::memcmp(tail_.data(), trace::kEndMagic.data(), tail_.size()) == 0;
  if (has_end && waited >= kForNextFile) return true;
  return !next_of_rotation(fd_, base_).empty();
}

std::ptrdiff_t FollowSource::read(void* to, std::size_t size) noexcept {
  try {
    const auto began = std::chrono::steady_clock::now();
    bool over = false;
    for (;;) {
      const ssize_t got = ::read(fd_, to, size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return -errno;
      if (got > 0) {
        const auto part = std::min<std::size_t>(static_cast<std::size_t>(got), tail_.size());
        std::memmove(tail_.data(), tail_.data() + part, tail_.size() - part);
        std::memcpy(tail_.data() + tail_.size() - part, static_cast<const char*>(to) + got - part, part);
        return got;
      }
      // Bytes that were written before the next file was begun are read first.
      if (std::exchange(over, is_over(std::chrono::steady_clock::now() - began))) return 0;
      if (over) continue;
      const timespec pause{0, std::chrono::nanoseconds(kBetweenReads).count()};
      ::nanosleep(&pause, nullptr);
    }
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

}  // namespace rtrs::tools
