#include "tools/nbdkit/start_report.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "tools/nbdkit/own_signals.hpp"

namespace rtrs::nbdkit {
namespace {

// Global, because pthread_atfork() handlers receive no argument. A process loads the plugin only once.
struct State {
  std::array<int, 2> ends{-1, -1};  // socket pair: [0] for the waiting parent, [1] for the child
  Nanos bound = 0;
  void (*print)(const char*) = nullptr;
  bool (*asked_to_end)() = nullptr;
  bool armed = false;   // the next fork will be the fork that nbdkit makes
  bool forked = false;  // this process is the child of that fork
};
State state;

constexpr char kOpened = 'K';
constexpr char kFailed = 'F';

void close_end(int index) {
  if (state.ends[index] >= 0) ::close(state.ends[index]);
  state.ends[index] = -1;
}

Nanos monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanos>(now.tv_sec) * seconds(1) + static_cast<Nanos>(now.tv_nsec);
}

// Time between two checks for a signal.
constexpr Nanos kSignalLook = milliseconds(200);
// After the parent has received a signal, the child gets this time to end.
constexpr Nanos kReportGrace = seconds(10);

// Reads the report of the child, until the child closes its end of the socket or `bound` has passed. If this
// process receives a signal while it waits, it shuts down its sending side, which starter_ends() in the child
// detects.
std::string read_report() {
  std::string report;
  Nanos deadline = monotonic_now() + state.bound;
  bool passed_on = false;
  for (;;) {
    const Nanos now = monotonic_now();
    if (now >= deadline) return report;
    if (!passed_on && state.asked_to_end()) {
      passed_on = true;
      deadline = std::min(deadline, now + kReportGrace);
      ::shutdown(state.ends[0], SHUT_WR);
    }
    pollfd waiting{state.ends[0], POLLIN, 0};
    const Nanos left = std::min(deadline - now, kSignalLook) / milliseconds(1) + 1;
    if (::poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 512> part{};
    const ssize_t size = ::read(state.ends[0], part.data(), part.size());
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
  state.print(report.size() > 1 ? report.c_str() + 1 : "nbdkit exited before it opened the device");
  ::_exit(1);
}

void in_child() {
  if (!state.armed) return;
  state.armed = false;
  state.forked = true;
  close_end(0);
}

}  // namespace

int await_start_in_fork(Nanos bound, void (*print)(const char* why), bool (*asked_to_end)()) {
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, state.ends.data()) != 0) return errno;
  if (const int error = ::pthread_atfork(watch_end_signals, in_parent, in_child); error != 0) return error;
  state.bound = bound;
  state.print = print;
  state.asked_to_end = asked_to_end;
  state.armed = true;
  return 0;
}

bool starter_ends() {
  if (!state.forked || state.ends[1] < 0) return false;
  pollfd stream{state.ends[1], POLLIN, 0};
  return ::poll(&stream, 1, 0) > 0;
}

bool report_start(const std::string& why) {
  state.armed = false;
  bool told = false;
  if (state.forked) {
    const std::string report = (why.empty() ? kOpened : kFailed) + why;
    told = ::send(state.ends[1], report.data(), report.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(report.size());
  }
  close_end(0);
  close_end(1);
  return told;
}

}  // namespace rtrs::nbdkit
