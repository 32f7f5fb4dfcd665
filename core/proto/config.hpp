// Settings of the protocol state machines, constant after construction. Times are in nanoseconds.
#pragma once
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/proto/ids.hpp"
#include "core/proto/limits.hpp"
#include "core/proto/multipath_policy.hpp"
#include "core/wire/extensions.hpp"

namespace rtrs {

// Heartbeat settings (protocol section 7). A peer is declared dead between (missed_max + 1) and (missed_max +
// 2) intervals after its last message.
struct HeartbeatConfig {
  Nanos interval = seconds(5);
  std::uint32_t missed_max = 5;
  bool operator==(const HeartbeatConfig&) const = default;
  RTRS_FIELDS(interval, missed_max)
};
// Returns the longest time after which a silent peer is declared dead.
constexpr Nanos dead_peer_time(const HeartbeatConfig& heartbeat) noexcept {
  const Nanos intervals = Nanos{heartbeat.missed_max} + 2;
  return heartbeat.interval > kNever / intervals ? kNever : intervals * heartbeat.interval;
}

// Policy for the requests of a lost path while there is no proof that the server will not execute them.
enum class UnfencedReplay : std::uint8_t {
  wait,    // hold the requests until there is proof: an answered fence, or the accept of a newer incarnation.
           // After such a request failed with no_path, new requests also wait until there is proof for it
  replay,  // resend the requests at once, as the kernel client does. A write that failed with no_path may
           // take effect after later writes (unproven_failures). docs/architecture.md explains the races
};

struct ClientConfig {
  std::uint64_t seed = 1;           // seed of the reconnect jitter; must differ between sessions
  std::uint16_t con_num = 3;        // connections per path: one for service, the rest for IO; 2 .. kMaxCons
  std::uint16_t max_depth = 512;    // maximum number of permits, 1 .. kMaxPermits; the server may offer fewer
  std::uint16_t send_depth = 1024;  // number of send queue entries per connection, at least 8
  wire::Extensions extensions = wire::kKnownExtensions;  // extensions offered to the server
  bool imm_consumes_receive = true;                      // copied from the fabric's capabilities
  // Each READ offers its own key for invalidation by the server (needs per_io_keys).
  bool offer_invalidation = false;
  MultipathPolicy policy = MultipathPolicy::min_inflight;
  UnfencedReplay kernel_peer = UnfencedReplay::replay;  // policy for a server without the fence
  UnfencedReplay fence_failed =
      UnfencedReplay::wait;             // policy if a fence is not answered within fence_timeout
  Nanos connect_timeout = seconds(30);  // time limit to set up a connection
  Nanos info_timeout = seconds(10);
  // Time limit for the answer to a fence, at least kMinFenceTimeout; kNever: no limit.
  Nanos fence_timeout = seconds(60);
  Nanos queue_timeout =
      seconds(120);  // time that a request waits for a path; kNever: no limit; 0: the request fails at once
  Nanos close_timeout = seconds(30);        // time that close() waits for requests in flight
  Nanos reconnect_min = milliseconds(500);  // first reconnect delay; doubles with each failed attempt
  Nanos reconnect_max = seconds(30);
  Nanos reconnect_jitter = seconds(2);   // maximum random addition to the delay, at most the delay itself
  Nanos busy_retry = milliseconds(250);  // delay while the server still closes the old incarnation
  // Delay before a second path tries to create the session while the first path still tries. Also the delay,
  // counted from the loss of the last path, before a path whose session the server does not know may create a
  // new one. kNever: never.
  Nanos lead_head_start = seconds(1);
  std::int32_t max_reconnect_attempts = -1;  // -1: no limit; 0: never reconnect
  HeartbeatConfig heartbeat;
  // Longest time to wait for a response; kNever: no limit, as slow storage may need. A request that exceeds
  // this time closes its path and fails with request_timeout after the path is drained. The other requests of
  // the path fail over. If queue_timeout is also set, a request is resent only until request_timeout +
  // queue_timeout after its first send. If its path is lost later, it fails with request_timeout.
  Nanos request_timeout = kNever;
  // Copied from the fabric's capability done_means_delivered. If set, ProbeDelivery detects a connection that
  // no longer delivers to a server without the probe extension.
  bool probe_deliveries = false;
  bool operator==(const ClientConfig&) const = default;
  RTRS_FIELDS(seed, con_num, max_depth, send_depth, extensions, imm_consumes_receive, offer_invalidation,
              policy, kernel_peer, fence_failed, connect_timeout, info_timeout, fence_timeout, queue_timeout,
              close_timeout, reconnect_min, reconnect_max, reconnect_jitter, busy_retry, lead_head_start,
              max_reconnect_attempts, heartbeat, request_timeout, probe_deliveries)
};

struct ServerConfig {
  std::uint16_t queue_depth = 512;  // number of chunks per session, 1 .. kMaxPermits
  std::uint32_t chunk_size =
      131072;  // in bytes; a power of two >= 8192; log2up(queue_depth) + log2(chunk_size) <= 28
  std::uint32_t max_hdr_size = 4096;
  std::uint16_t send_depth = 1024;  // number of send queue entries per connection
  std::uint16_t max_sessions = 64;
  std::uint16_t max_host_sessions = 0;  // maximum number of sessions of one client address; 0: max_sessions
  std::uint16_t max_half_open =
      0;  // sessions of one client address that sent no INFO_REQ yet; 0: half of max_sessions
  // Extensions that are granted on request. With keys_stay, off by default, the client invalidates the keys
  // of its READs itself, which may cost it less than a SEND_WITH_INV.
  wire::Extensions extensions = wire::kKnownExtensions & ~wire::Extensions::keys_stay;
  bool always_invalidate = false;  // a fresh key for every IO (needs capability `invalidation`)
  bool imm_consumes_receive = true;
  // If true, honours NEED_INVAL unless the path agreed on keys_stay (needs the capability send_invalidate).
  // If false, every client must invalidate its keys itself, and a kernel client before 6.12 never completes a
  // READ (protocol section 5.6).
  bool send_invalidate = true;
  Nanos handshake_timeout = seconds(30);  // time from the first connect request of a path to its INFO_REQ
  HeartbeatConfig heartbeat;
  bool probe_deliveries = false;  // see ClientConfig::probe_deliveries
  bool operator==(const ServerConfig&) const = default;
  RTRS_FIELDS(queue_depth, chunk_size, max_hdr_size, send_depth, max_sessions, max_host_sessions,
              max_half_open, extensions, always_invalidate, imm_consumes_receive, send_invalidate,
              handshake_timeout, heartbeat, probe_deliveries)
};

}  // namespace rtrs
