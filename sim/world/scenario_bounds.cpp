// Time limits for recovery.
#include <algorithm>

#include "sim/world/scenario.hpp"

namespace rtrs::sim {

namespace {
// Bound of an exponential draw, as a multiple of its mean: at most one mean as the minimum, plus eight means
// (draw_exponential()).
constexpr Nanos kTail = 9;
// Connecting up to this many connections takes negligible time.
constexpr std::uint32_t kFewCons = 16;
}  // namespace

Nanos drain_bound(const Scenario& s) {
  return kTail * s.network.slow_drain_hold + s.network.drain + s.network.channel_spread;
}

LivenessBound liveness_bound(const Scenario& s) {
  LivenessBound bound;
  // Without heartbeats, only the network detects a dead peer.
  const Nanos silence = std::min(
      std::max(dead_peer_time(s.client.heartbeat), dead_peer_time(s.server.heartbeat)), seconds(3600));
  const Nanos budget = s.network.retry_budget + s.network.retry_spread + s.network.retransmit;
  const Nanos storage = s.storage.longest();
  const Nanos apart = s.network.channel_spread;
  bound.detect = std::max(budget, silence) + s.network.rnr_budget + apart;
  bound.teardown = drain_bound(s) + storage;
  bound.stale = std::max(silence, s.server.handshake_timeout) + bound.teardown;
  bound.lead = s.client.lead_head_start == kNever ? 0 : s.paths * s.client.lead_head_start;
  bound.attempt = s.client.reconnect_max + s.client.reconnect_jitter + s.client.connect_timeout +
                  s.client.info_timeout + kTail * s.network.cm_latency + bound.teardown;
  // A path's connections are created one after another.
  if (s.client.con_num > kFewCons) bound.attempt += s.client.con_num * kTail * s.network.cm_latency;
  if (s.keys) bound.attempt *= 2;  // the first try of each attempt is challenged
  bound.attempt *= s.names.addresses();
  // Each path that may create the session first tries the dead addresses before the working one.
  bound.lead += s.paths * s.names.before *
                (std::min(s.client.connect_timeout, Nanos{kAddressTimeout}) + bound.teardown);
  // Each permit can cost two waits: one request waits for storage, and the next one for its chunk.
  const std::uint32_t depth = std::min<std::uint32_t>(s.server.queue_depth, s.client.max_depth);
  const Nanos turns = 3 + s.workload.window / depth;
  const auto slow = [](const ClockRate& rate) { return (rate.den + rate.num - 1) / rate.num; };
  const Nanos stretch = std::max(slow(s.client_clock), slow(s.server_clock));
  bound.detect *= stretch;
  bound.stale *= stretch;
  bound.lead *= stretch;
  bound.attempt *= stretch;
  // A refused device is retried within 15 s. Closing it takes up to 5 s.
  const Nanos devices = s.workload.disks == 0
                            ? 0
                            : seconds(30) * stretch + 4 * (s.workload.opening + s.workload.disk_time) +
                                  4 * s.workload.disk_time;
  // A fence without a timeout ends when its path reconnects. The term for fences is therefore capped at one
  // hour.
  bound.request = devices + 2 * stretch * std::min(s.client.fence_timeout, seconds(3600)) +
                  turns * (storage + milliseconds(10) + 2 * apart) * s.clients + 4 * apart;
  return bound;
}

}  // namespace rtrs::sim
