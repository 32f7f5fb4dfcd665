// Fuzzes the heartbeat with arrivals at random times. A silent peer must be declared dead within the
// specified bounds.
#include "core/proto/heartbeat.hpp"

#include <algorithm>

#include "conformance/fuzz/draws.hpp"
#include "conformance/fuzz/fuzz.hpp"
#include "conformance/fuzz/state_pairs.hpp"

using namespace rtrs;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Draws draws(data, size);
  fuzz::StatePairs pairs;
  HeartbeatConfig config;
  config.interval = seconds(1 + draws.below(8));
  config.missed_max = draws.below(8);
  Heartbeat heartbeat;
  Nanos now = seconds(1);
  Nanos heard = now;
  std::uint64_t sent = 0;
  bool late = false;  // a tick ran late since the last arrival
  heartbeat.start(now, config);
  while (draws.left()) {
    const std::uint32_t what = draws.below(4);
    if (what == 0) {
      heartbeat.received();
      heard = now;
      late = false;
    } else if (what == 1) {
      now += draws.below(1000) * config.interval / 1000;
      if (now < heartbeat.deadline()) continue;
    } else {
      const Nanos lag = what == 3 ? draws.below(100) * config.interval / 10 : 0;
      now = std::max(now, heartbeat.deadline()) + lag;
    }
    if (now < heartbeat.deadline()) continue;
    late = late || now > heartbeat.deadline();
    const Heartbeat::Tick tick = heartbeat.on_tick(now, config);
    pairs.reached(static_cast<std::uint64_t>(tick), what);
    if (tick == Heartbeat::Tick::send) ++sent;
    if (tick != Heartbeat::Tick::dead) {
      RTRS_FUZZ_CHECK(heartbeat.deadline() == now + config.interval);
      // If all ticks ran on time, a peer that was silent for longer than this would have been declared dead.
      RTRS_FUZZ_CHECK(late || now - heard <= (config.missed_max + 2) * config.interval);
      continue;
    }
    RTRS_FUZZ_CHECK(sent > 0 && heartbeat.deadline() == kNever);
    RTRS_FUZZ_CHECK(now - heard >= (config.missed_max + 1) * config.interval);
    return 0;
  }
  return 0;
}
