#include "tools/nbdkit/own_signals.hpp"

#include <array>
#include <atomic>
#include <csignal>

namespace rtrs::nbdkit {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};

// Global, because a signal handler receives no user pointer.
std::atomic<bool> came{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler must not wait");
std::array<struct sigaction, kSignals.size()> former_actions{};

void remember(int number, siginfo_t* info, void* context) {
  came = true;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] != number) continue;
    if ((former_actions[i].sa_flags & SA_SIGINFO) != 0)
      former_actions[i].sa_sigaction(number, info, context);
    else
      former_actions[i].sa_handler(number);
  }
}

bool is_ours(const struct sigaction& one) {
  return (one.sa_flags & SA_SIGINFO) != 0 && one.sa_sigaction == remember;
}

}  // namespace

void watch_end_signals() noexcept {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction is {};
    if (::sigaction(kSignals[i], nullptr, &is) != 0 || is_ours(is)) continue;
    if ((is.sa_flags & SA_SIGINFO) == 0 && (is.sa_handler == SIG_DFL || is.sa_handler == SIG_IGN)) continue;
    former_actions[i] = is;
    is.sa_flags |= SA_SIGINFO;
    is.sa_sigaction = remember;
    ::sigaction(kSignals[i], &is, nullptr);
  }
}

bool end_signalled() noexcept {
  return came;
}

void leave_end_signals() noexcept {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction is {};
    if (::sigaction(kSignals[i], nullptr, &is) == 0 && is_ours(is))
      ::sigaction(kSignals[i], &former_actions[i], nullptr);
  }
  came = false;
}

}  // namespace rtrs::nbdkit
