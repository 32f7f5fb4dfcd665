#include "tools/urtrs-perf/interrupt.hpp"

#include <csignal>

namespace rtrs::perf {
namespace {

volatile std::sig_atomic_t g_signal = 0;

void remember(int number) {
  // A second signal has its default effect, so that it ends a program that hangs.
  if (g_signal != 0) std::signal(number, SIG_DFL);
  g_signal = number;
}

}  // namespace

void catch_signals() noexcept {
  struct sigaction action {};
  action.sa_handler = remember;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int caught_signal() noexcept {
  return g_signal;
}

}  // namespace rtrs::perf
