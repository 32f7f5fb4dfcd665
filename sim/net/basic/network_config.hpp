// Configuration, fault rates and statistics of a simulated network.
#pragma once
#include <cstdint>

#include "core/fabric/fabric.hpp"
#include "sim/net/basic/network_event.hpp"

namespace rtrs::sim {

// Probabilities in parts per million, drawn at each opportunity; all 0: no faults. May change at any time.
struct Rates {
  std::uint32_t source_read_early = 0;  // payload is read when posted instead of as late as possible
  std::uint32_t torn_write = 0;         // part of a write is visible for a while before the rest
  std::uint32_t rnr_placement = 0;      // payload lands although its immediate finds no receive
  std::uint32_t receive_late = 0;       // a write finds no receive although one was posted
  std::uint32_t ghost_delay = 0;        // a message of a broken queue pair arrives much later
  std::uint32_t slow_drain = 0;         // ConnectionClosed is reported seconds after disconnect
  std::uint32_t late_placement = 0;     // a write lands between disconnect and ConnectionClosed
  std::uint32_t qp_error = 0;           // a queue pair breaks; drawn for each delivery
  std::uint32_t request_lost = 0, request_late = 0;
  std::uint32_t reply_lost = 0, reply_late = 0;
  std::uint32_t reject_lost = 0, reject_late = 0;
  std::uint32_t disconnect_lost = 0, disconnect_late = 0;
  std::uint32_t info_cut = 0;        // a SEND on connection 0 cuts its link for `info_cut_hold`
  std::uint32_t resource_short = 0;  // the node cannot allocate memory, a key or a connection
  std::uint32_t resolve_failed = 0;  // an address does not resolve
  std::uint32_t accept_failed = 0;   // accept() cannot create its queue pair
  std::uint32_t post_short = 0;      // post() accepts only part of its work; at most twice in a row
  bool operator==(const Rates&) const = default;
};

template <class R, class Visit>
void for_each_rate(R& rates, Visit&& visit) {
  for (auto* rate :
       {&rates.source_read_early, &rates.torn_write,      &rates.rnr_placement,   &rates.ghost_delay,
        &rates.slow_drain,        &rates.late_placement,  &rates.qp_error,        &rates.request_lost,
        &rates.request_late,      &rates.reply_lost,      &rates.reply_late,      &rates.reject_lost,
        &rates.reject_late,       &rates.disconnect_lost, &rates.disconnect_late, &rates.info_cut,
        &rates.resource_short,    &rates.resolve_failed,  &rates.accept_failed,   &rates.post_short,
        &rates.receive_late})
    visit(*rate);
}

struct NetworkConfig {
  Capabilities capabilities;             // default: those of a verbs device, see default_capabilities()
  Nanos latency = microseconds(5);       // one way, of new links; see set_latency()
  Nanos jitter = microseconds(5);        // maximum additional latency, drawn for each message
  Nanos retry_budget = seconds(9);       // an outage shorter than this only delays messages
  Nanos retry_spread = seconds(9);       // maximum addition to the retry budget of a queue pair
  Nanos retransmit = milliseconds(100);  // maximum delay of traffic after a heal
  Nanos torn_hold = milliseconds(1);     // maximum time until the rest of a torn write is visible
  Nanos ghost_hold = seconds(20);        // mean delay that ghost_delay adds
  Nanos drain = microseconds(20);        // maximum time from disconnect to ConnectionClosed
  Nanos slow_drain_hold = seconds(2);    // mean time that slow_drain adds
  Nanos cm_latency = microseconds(100);  // maximum additional latency of a CM message
  Nanos cm_late_hold = seconds(20);      // mean delay of a late CM message; minimum: a tenth of it
  Nanos cm_timeout = seconds(2);         // time until a connect request is repeated
  // Verbs rule: an unsignalled work request keeps its slot until a later signalled one ends.
  bool strict_send_queue = false;
  std::uint32_t cm_retries = 7;      // repetitions before ConnectFailed{connect_timeout}
  Nanos info_cut_hold = seconds(5);  // mean duration of a cut by info_cut; the minimum is a tenth of the mean
  Nanos rnr_budget = 0;              // a receive missing for this long breaks the requester; 0: never
  // Maximum additional latency of a connection, so that messages on different connections may overtake each
  // other. Redrawn on average every `channel_turns` messages.
  Nanos channel_spread = 0;
  std::uint32_t channel_turns = 64;
};
Capabilities default_capabilities() noexcept;
// Capabilities of a stream socket: immediates consume no receive, no remote invalidation, and a completion
// only means "copied".
Capabilities weak_capabilities() noexcept;

struct LinkInfo {
  NodeId client = kNone, server = kNone;
  std::uint32_t client_port = 0, server_port = 0;
  bool cut[2] = {false, false};   // indexed by Way
  bool dead[2] = {false, false};  // permanently cut
};
struct QpInfo {
  NodeId node = kNone;
  QpId peer = kNone;
  LinkId link = kNone;
  Way way = Way::to_server;  // direction in which this end sends
  ConKey key{};
  bool alive = false;  // neither broken nor disconnected
  bool established = false;
};
struct NetworkStats {
  std::uint64_t events = 0;  // processed events
  std::uint64_t messages = 0, bytes = 0;
  std::uint64_t torn = 0, ghosts = 0, rnr_waits = 0, retry_exceeded = 0, refused = 0;
  std::uint64_t cm_lost = 0, cm_late = 0, qp_errors = 0, cuts = 0, late_placements = 0;
  std::uint64_t rnr_exceeded = 0, swallowed = 0, unplugged = 0;
  std::uint64_t corrupted = 0;  // bytes changed in transit
  std::uint64_t shortages = 0, unresolved = 0, failed_accepts = 0, short_posts = 0;
};

}  // namespace rtrs::sim
