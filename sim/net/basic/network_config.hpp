// What a simulated network is made from, what may go wrong in it, and what it tells of itself.
#pragma once
#include <cstdint>

#include "core/fabric/fabric.hpp"
#include "sim/net/basic/network_event.hpp"

namespace rtrs::sim {

// Chances per million, tried at each opportunity; all 0 is a calm network. May be changed at any time.
struct Rates {
  std::uint32_t source_read_early = 0;  // payload is read when posted instead of as late as possible
  std::uint32_t torn_write = 0;         // part of a write is visible for a while before the rest
  std::uint32_t rnr_placement = 0;      // payload lands although its immediate finds no receive
  std::uint32_t ghost_delay = 0;        // a message of a dead queue pair arrives much later
  std::uint32_t slow_drain = 0;         // ConnectionClosed comes seconds after disconnect
  std::uint32_t late_placement = 0;     // a write lands between disconnect and ConnectionClosed
  std::uint32_t qp_error = 0;           // a queue pair breaks, tried for each delivery
  std::uint32_t request_lost = 0, request_late = 0;
  std::uint32_t reply_lost = 0, reply_late = 0;
  std::uint32_t reject_lost = 0, reject_late = 0;
  std::uint32_t disconnect_lost = 0, disconnect_late = 0;
  std::uint32_t info_cut = 0;        // a SEND on connection 0 is caught by a cut of its link of info_cut_hold
  std::uint32_t resource_short = 0;  // memory, a key or a connection of one's own cannot be had
  std::uint32_t resolve_failed = 0;  // an address does not resolve
  std::uint32_t accept_failed = 0;   // accept() cannot make its queue pair
  std::uint32_t post_short = 0;      // post() takes a part only; at most twice in a row
  bool operator==(const Rates&) const = default;
};

// Calls `visit` with each chance.
template <class R, class Visit>
void for_each_rate(R& rates, Visit&& visit) {
  for (auto* rate :
       {&rates.source_read_early, &rates.torn_write,      &rates.rnr_placement,   &rates.ghost_delay,
        &rates.slow_drain,        &rates.late_placement,  &rates.qp_error,        &rates.request_lost,
        &rates.request_late,      &rates.reply_lost,      &rates.reply_late,      &rates.reject_lost,
        &rates.reject_late,       &rates.disconnect_lost, &rates.disconnect_late, &rates.info_cut,
        &rates.resource_short,    &rates.resolve_failed,  &rates.accept_failed,   &rates.post_short})
    visit(*rate);
}

struct NetworkConfig {
  Capabilities capabilities;             // default: everything a verbs device has, see default_capabilities()
  Nanos latency = microseconds(5);       // one way, of links made from now on; see set_latency()
  Nanos jitter = microseconds(5);        // up to this much more, drawn for each message
  Nanos retry_budget = seconds(9);       // an outage shorter than this is delay only
  Nanos retry_spread = seconds(9);       // the real budget of a queue pair is up to this much longer
  Nanos retransmit = milliseconds(100);  // up to this long after a heal until traffic flows
  Nanos torn_hold = milliseconds(1);     // up to
  Nanos ghost_hold = seconds(20);        // mean
  Nanos drain = microseconds(20);        // up to
  Nanos slow_drain_hold = seconds(2);    // mean
  Nanos cm_latency = microseconds(100);  // up to
  Nanos cm_late_hold = seconds(20);      // mean
  Nanos cm_timeout = seconds(2);         // a connect request is repeated after this
  bool strict_send_queue =
      false;  // like verbs: unsignalled work keeps its place until a later signalled one ends
  std::uint32_t cm_retries = 7;      // times; then ConnectFailed{connect_timeout}
  Nanos info_cut_hold = seconds(5);  // mean, at least a tenth of it
  Nanos rnr_budget = 0;              // a receive that is missing for this long breaks the requester; 0: never
  // Each connection is slower than its link by up to this, drawn anew with a chance of one in `channel_turns`
  // messages: everything that is under way on different connections may arrive in any order.
  Nanos channel_spread = 0;
  std::uint32_t channel_turns = 64;
};
Capabilities default_capabilities() noexcept;
// Like a stream socket: no receive taken by immediates, no remote invalidation, a completion means "copied".
Capabilities weak_capabilities() noexcept;

struct LinkInfo {
  NodeId client = kNone, server = kNone;
  std::uint32_t client_port = 0, server_port = 0;
  bool cut[2] = {false, false};   // by Way
  bool dead[2] = {false, false};  // cut, and never healed
};
struct QpInfo {
  NodeId node = kNone;
  QpId peer = kNone;
  LinkId link = kNone;
  Way way = Way::to_server;  // of what it sends
  ConKey key{};
  bool alive = false;  // neither broken nor disconnected
  bool established = false;
};
struct NetworkStats {
  std::uint64_t events = 0;  // steps
  std::uint64_t messages = 0, bytes = 0;
  std::uint64_t torn = 0, ghosts = 0, rnr_waits = 0, retry_exceeded = 0, refused = 0;
  std::uint64_t cm_lost = 0, cm_late = 0, qp_errors = 0, cuts = 0, late_placements = 0;
  std::uint64_t rnr_exceeded = 0, swallowed = 0, unplugged = 0;
  std::uint64_t corrupted = 0;  // octets changed on the way
  std::uint64_t shortages = 0, unresolved = 0, failed_accepts = 0, short_posts = 0;
};

}  // namespace rtrs::sim
