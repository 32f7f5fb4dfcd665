// Tests with handmade events which silences of a trace are pauses of its process.
#include "tools/lib/trace/hangs/pauses.hpp"

#include <gtest/gtest.h>

namespace rtrs::trace::pauses_test {
namespace {

using spec::Event;
using spec::Kind;

constexpr std::uint64_t kSecond = 1'000'000'000;

// A client with one path, connected at 0 s, and heartbeats of 1 s.
class Trace {
 public:
  Trace() {
    Event event;
    event.kind = Kind::BeginClient;
    event.settings.heartbeat_interval = kSecond;
    finder.on(0, event);
    add(0, Kind::InfoAccepted);
  }
  bool add(std::uint64_t time, Kind kind) {
    Event event;
    event.kind = kind;
    event.now = time;
    event.seq = seq_;
    const bool paused = finder.at(seq_++, time);
    finder.on(0, event);
    return paused;
  }
  PauseFinder finder;

 private:
  std::uint64_t seq_ = 0;
};

TEST(Pauses, LateTickProvesAPause) {
  Trace trace;
  EXPECT_FALSE(trace.add(kSecond / 5, Kind::Submitted));
  EXPECT_TRUE(trace.add(5 * kSecond, Kind::ImmReceived)) << "the tick follows later in the same burst";
  ASSERT_EQ(trace.finder.pauses().size(), 1U);
  const Pause& pause = trace.finder.pauses().front();
  EXPECT_EQ(pause.from, kSecond);
  EXPECT_EQ(pause.to, 5 * kSecond);
  EXPECT_EQ(pause.silent_since, kSecond / 5);
  EXPECT_EQ(pause.record, 2U);
  EXPECT_FALSE(trace.add(5 * kSecond, Kind::DeadlineReached));
  EXPECT_FALSE(trace.add(6 * kSecond, Kind::DeadlineReached));
}

TEST(Pauses, SilenceUntilTheTickIsNone) {
  Trace trace;
  for (std::uint64_t tick = 1; tick < 9; ++tick)
    EXPECT_FALSE(trace.add(tick * kSecond, Kind::DeadlineReached));
  EXPECT_FALSE(trace.add(9 * kSecond + PauseFinder::kLate, Kind::DeadlineReached)) << "not late enough";
}

TEST(Pauses, NothingIsDueWithoutAPath) {
  Trace trace;
  trace.add(kSecond / 2, Kind::PathChanged);
  EXPECT_FALSE(trace.add(60 * kSecond, Kind::DeadlineReached));
}

TEST(Pauses, AProcessThatBeginsAgainDidNotPause) {
  for (const Kind kind : {Kind::BeginServerRegistry, Kind::BeginClient}) {
    Trace trace;
    trace.add(60 * kSecond, kind);
    EXPECT_TRUE(trace.finder.pauses().empty());
    EXPECT_FALSE(trace.add(90 * kSecond, Kind::ConnectRequested)) << "its timers ended with it";
  }
}

}  // namespace
}  // namespace rtrs::trace::pauses_test
