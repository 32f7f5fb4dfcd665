#include "tools/nbdkit/own_signals.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace rtrs::nbdkit::own_signals_test {
namespace {

volatile std::sig_atomic_t seen = 0;

void count(int) {
  seen = seen + 1;
}
void count_with_more(int, siginfo_t*, void*) {
  seen = seen + 10;
}

class OwnSignals : public testing::Test {
 protected:
  OwnSignals() {
    seen = 0;
    struct sigaction plain {};
    plain.sa_handler = count;
    ::sigaction(SIGTERM, &plain, nullptr);
    struct sigaction more {};
    more.sa_flags = SA_SIGINFO;
    more.sa_sigaction = count_with_more;
    ::sigaction(SIGINT, &more, nullptr);
  }
  ~OwnSignals() override {
    leave_end_signals();
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGINT, SIG_DFL);
  }
};

TEST_F(OwnSignals, PreviousHandlerIsCalledAndTheSignalIsRecorded) {
  watch_end_signals();
  EXPECT_FALSE(end_signalled());
  std::raise(SIGTERM);
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(end_signalled());
  std::raise(SIGINT);
  EXPECT_EQ(seen, 11);
}

TEST_F(OwnSignals, WatchingTwiceCallsTheHandlerOnce) {
  watch_end_signals();
  watch_end_signals();
  std::raise(SIGTERM);
  EXPECT_EQ(seen, 1);
}

TEST_F(OwnSignals, LeavingRestoresTheHandlers) {
  watch_end_signals();
  leave_end_signals();
  std::raise(SIGTERM);
  EXPECT_EQ(seen, 1);
  EXPECT_FALSE(end_signalled());
}

TEST_F(OwnSignals, SignalsWithoutAHandlerAreNotChanged) {
  ::signal(SIGHUP, SIG_IGN);
  watch_end_signals();
  std::raise(SIGHUP);
  EXPECT_FALSE(end_signalled());
  EXPECT_EXIT(
      {
        ::signal(SIGQUIT, SIG_DFL);
        watch_end_signals();
        std::raise(SIGQUIT);
      },
      testing::KilledBySignal(SIGQUIT), "");
  ::signal(SIGHUP, SIG_DFL);
}

}  // namespace
}  // namespace rtrs::nbdkit::own_signals_test
