#include "tools/nbdkit/start_report.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

namespace rtrs::nbdkit {
namespace {

// pthread_atfork handlers take no argument, and a plugin exists once a process.
struct State {
  std::array<int, 2> pipe{-1, -1};
  Nanos bound = 0;
  void (*print)(const char*) = nullptr;
  bool armed = false;   // the next fork is nbdkit's
  bool forked = false;  // this process is its child
};
State state;

constexpr char kOpened = 'K';
constexpr char kFailed = 'F';

void close_end(int index) {
  if (state.pipe[index] >= 0) ::close(state.pipe[index]);
  state.pipe[index] = -1;
}

Nanos monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanos>(now.tv_sec) * seconds(1) + static_cast<Nanos>(now.tv_nsec);
}

// What the other process wrote until it closed its end or `bound` passed.
std::string read_report() {
  std::string report;
  const Nanos deadline = monotonic_now() + state.bound;
  for (;;) {
    const Nanos now = monotonic_now();
    if (now >= deadline) return report;
    pollfd waiting{state.pipe[0], POLLIN, 0};
    const Nanos left = std::min<Nanos>((deadline - now) / milliseconds(1) + 1, 60'000);
    if (::poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 512> part{};
    const ssize_t size = ::read(state.pipe[0], part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return report;
    report.append(part.data(), static_cast<std::size_t>(size));
  }
}

void in_parent() {
  if (!state.armed) return;
  state.armed = false;
  close_end(1);
  const std::string report = read_report();
  close_end(0);
  if (!report.empty() && report.front() == kOpened) return;
  state.print(report.size() > 1 ? report.c_str() + 1 : "nbdkit ended before it opened the device");
  ::_exit(1);
}

void in_child() {
  if (!state.armed) return;
  state.armed = false;
  state.forked = true;
  close_end(0);
}

}  // namespace

int await_start_in_fork(Nanos bound, void (*print)(const char* why)) {
  if (::pipe2(state.pipe.data(), O_CLOEXEC) != 0) return errno;
  if (const int error = ::pthread_atfork(nullptr, in_parent, in_child); error != 0) return error;
  state.bound = bound;
  state.print = print;
  state.armed = true;
  return 0;
}

bool report_start(const std::string& why) {
  state.armed = false;
  bool told = false;
  if (state.forked) {
    const std::string report = (why.empty() ? kOpened : kFailed) + why;
    told = ::write(state.pipe[1], report.data(), report.size()) == static_cast<ssize_t>(report.size());
  }
  close_end(0);
  close_end(1);
  return told;
}

}  // namespace rtrs::nbdkit
