#include "core/proto/client_path.hpp"

#include <algorithm>

#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

namespace {
// Number of receives of the service connection in addition to those for responses: for heartbeats,
// acknowledgements and fence answers.
constexpr unsigned kServiceReceives = 64;
// Number of receives of an IO connection for the answer to a probe.
constexpr unsigned kProbeReceives = 1;

// True for failures that concern this address only. If the server rejects the client, the next attempt uses
// the same address after the delay. A shortage on this host or an unresponsive name service affects all
// addresses alike.
bool is_address_specific(Reason reason) noexcept {
  switch (reason) {
    case Reason::address_unresolved:
    case Reason::connect_refused:
    case Reason::connect_timeout:
    case Reason::bad_conn_rsp:
    case Reason::info_timeout:
    case Reason::peer_closed:
    case Reason::name_refused:
    case Reason::transport_error:
    case Reason::source_unavailable:
    case Reason::unanswered:
    case Reason::tls_failed:
      return true;
    default:
      return false;
  }
}
}  // namespace

bool ClientPath::owns(const ConKey& key) const noexcept {
  return key.epoch == epoch_ && key.con < cons_.size() &&
         cons_[key.con].state != ClientConnection::State::closed;
}

bool ClientPath::counts_add_up() const noexcept {
  std::uint32_t sum = 0;
  for (const ClientConnection& con : cons_) sum += con.inflight;
  return sum == inflight_;
}

bool ClientPath::add(std::uint16_t index, std::uint16_t cons) noexcept {
  RTRS_ASSERT(state_ == PathState::absent && inflight_ == 0);
  if (!cons_.reserve(cons)) return false;
  // Keeps the epoch, so that a reused path index never repeats an incarnation of its predecessor.
  const std::uint32_t epoch = epoch_;
  *this = ClientPath{};
  index_ = index;
  epoch_ = epoch;
  return true;
}

void ClientPath::start(Nanos now, const ClientConfig& config, bool first, ClientActions& out) noexcept {
  RTRS_ASSERT(inflight_ == 0);
  state_ = PathState::connecting;
  challenge_.answered = goal_ == Goal::answer_challenge;
  goal_ = Goal::retry;
  reason_ = Reason::none;
  peer_errno_ = 0;
  ++epoch_;
  ++attempts_;
  first_ = first || came_up_;
  held_back_ = false;
  ack_owed_ = message_owed_ = false;
  batch_ = {};
  addresses_.count = 0;
  cons_.clear();
  connect_next(now, config, out);
}

void ClientPath::connect_next(Nanos now, const ClientConfig& config, ClientActions& out) noexcept {
  const auto con = static_cast<std::uint16_t>(cons_.size());
  cons_.push_back({});
  deadline_ = later(now, config.connect_timeout);
  // first_conn is false only on cid 0 of an additional path that was never connected (protocol section 3.4).
  // The kernel client already sets it once the server has accepted cid 0. With the kernel's rule, a path
  // whose attempt fails later could create its own session on a wrong server.
  out.push(Connect{key(con), config.con_num, static_cast<std::uint16_t>(epoch_), config.extensions,
                   con > 0 || first_});
}

void ClientPath::addresses_found(Nanos now, std::uint16_t count, const ClientConfig& config) noexcept {
  addresses_.count = count;
  addresses_.next = static_cast<std::uint16_t>(addresses_.next % count);
  const unsigned doublings = std::min(attempts_ == 0 ? 0U : attempts_ - 1, 16U);
  const Nanos bound = std::min(config.connect_timeout, Nanos{kAddressTimeout} << doublings);
  deadline_ = std::min(deadline_, later(now, bound));
}

void ClientPath::leave_address() noexcept {
  if (goal_ != Goal::retry || reason_ == Reason::rejected_busy) return;
  const bool others = is_address_specific(reason_) && addresses_.tried + 1U < addresses_.count;
  addresses_.tried = others ? static_cast<std::uint16_t>(addresses_.tried + 1U) : std::uint16_t{0};
  if (others) goal_ = Goal::next_address;
  if (addresses_.count != 0)
    addresses_.next = static_cast<std::uint16_t>((addresses_.next + 1U) % addresses_.count);
}

void ClientPath::wait_until(Nanos when, Reason reason) noexcept {
  state_ = PathState::waiting;
  reason_ = reason;
  deadline_ = when;
  held_back_ = false;
  // A delay ends the round of addresses, even if a busy server is retried at the same address.
  addresses_.tried = 0;
}

void ClientPath::hold_back(Nanos when) noexcept {
  wait_until(when, Reason::none);
  held_back_ = true;
}

void ClientPath::not_known(Nanos now, bool foreign) noexcept {
  foreign_ = foreign_ || foreign;
  unknown_again_ = unknown_since_ != kNever;
  unknown_since_ = std::min(unknown_since_, now);
}

void ClientPath::settle(PathState state, Reason reason) noexcept {
  state_ = state;
  reason_ = reason;
  deadline_ = kNever;
}

void ClientPath::connection_up(const Connected& in, const ClientConfig& config, ClientActions& out) noexcept {
  ClientConnection& con = cons_[in.key.con];
  RTRS_ASSERT(state_ == PathState::connecting && con.state == ClientConnection::State::connecting);
  con.state = ClientConnection::State::up;
  con.queue.open(config.send_depth);
  if (in.key.con == 0) {
    const wire::Extensions agreed = wire::granted_extensions(in.flags) & config.extensions;
    fence_ = has(agreed, wire::Extensions::fence);
    generations_ = has(agreed, wire::Extensions::generation);
    probe_ = has(agreed, wire::Extensions::probe);
    const bool joins_data = has(agreed, wire::Extensions::data_with_answer);
    chunk_keys_ = (in.flags & wire::kConnRspNewRkey) == 0 ? ChunkKeys::stay
                  : joins_data                            ? ChunkKeys::fresh_for_writes
                                                          : ChunkKeys::fresh;
    unknown_since_ = kNever;
    unknown_again_ = foreign_ = false;
  }
  if (cons_.size() < config.con_num) return connect_next(in.now, config, out);
  deadline_ = later(in.now, config.info_timeout);
  // The receive for INFO_RSP must be the first of its connection: receives are used in order (protocol
  // section 10.3).
  out.push(PostReceive{key(0), 1, ReceiveKind::info});
  out.push(SendInfoReq{key(0), cons_[0].queue.take(1)});
}

bool ClientPath::post_receives(const ClientConfig& config, unsigned depth, ClientActions& out) noexcept {
  // An invalidation takes one more receive, before the receive of its response (protocol section 10.3).
  const unsigned per_request = config.offer_invalidation ? 2 : 1;
  const auto last = std::min<std::size_t>(cons_.size(), batch_.next + kConsPerStep);
  auto con = batch_.next;
  for (; con < last; ++con) {
    const unsigned extra = con == 0 ? kServiceReceives : probe_ ? kProbeReceives : 0;
    out.push(
        PostReceive{key(con), static_cast<std::uint16_t>(depth * per_request + extra), receive_kind(con)});
  }
  batch_.next = con < cons_.size() ? con : std::uint16_t{0};
  return !in_batch();
}

void ClientPath::come_up(Nanos now, const ClientConfig& config) noexcept {
  state_ = PathState::connected;
  first_ = came_up_ = true;
  reason_ = Reason::none;
  peer_errno_ = 0;
  forget_attempts();
  latency_ = 0;
  deadline_ = kNever;
  heartbeat_.start(now, config.heartbeat);
}

bool ClientPath::lose(Reason reason, std::uint16_t peer_errno, ClientActions& out) noexcept {
  state_ = goal_ == Goal::close || goal_ == Goal::remove ? PathState::closing : PathState::draining;
  reason_ = reason;
  peer_errno_ = peer_errno;
  deadline_ = kNever;
  heartbeat_.stop();
  batch_ = {};
  end_connections(out);
  return all_closed();
}

void ClientPath::end_connections(ClientActions& out) noexcept {
  unsigned budget = kConsPerStep;
  std::uint16_t con = batch_.next;
  for (; con < cons_.size() && budget > 0; ++con) {
    ClientConnection::State& state = cons_[con].state;
    if (state == ClientConnection::State::closed) continue;
    state = ClientConnection::State::disconnecting;
    out.push(Disconnect{key(con), reason_});
    --budget;
  }
  batch_.next = con < cons_.size() ? con : std::uint16_t{0};
}

// Scans from the end, because connections mostly close in the order of their Disconnects, so that the last
// connection usually decides the result.
bool ClientPath::all_closed() const noexcept {
  const auto closed = [](const ClientConnection& con) {
    return con.state == ClientConnection::State::closed;
  };
  return (cons_.empty() || closed(cons_[cons_.size() - 1])) &&
         std::all_of(cons_.begin(), cons_.end(), closed);
}

bool ClientPath::connection_closed(const ConKey& key) noexcept {
  cons_[key.con].state = ClientConnection::State::closed;
  return all_closed();
}

void ClientPath::heartbeat_message(ClientActions& out) noexcept {
  ack_owed_ = true;
  send_owed_heartbeats(0, out);
}

Reason ClientPath::heartbeat_due(Nanos now, const ClientConfig& config, bool fencing,
                                 ClientActions& out) noexcept {
  const Heartbeat::Tick tick = heartbeat_.on_tick(now, config.heartbeat);
  if (tick == Heartbeat::Tick::dead) return Reason::heartbeat_lost;
  if (tick == Heartbeat::Tick::send) message_owed_ = true;
  if (probe_ || config.probe_deliveries) {
    // A step that ends all connections sends no probes, because both together would exceed the action list.
    for (std::uint16_t con = 0; con < cons_.size(); ++con)
      if (cons_[con].probe.is_dead(outstanding(con, fencing), config.heartbeat))
        return Reason::connection_silent;
    for (std::uint16_t con = 0; con < cons_.size(); ++con)
      cons_[con].probe.on_tick(outstanding(con, fencing));
  }
  batch_ = {};
  send_owed_heartbeats(out);
  return Reason::none;
}

void ClientPath::send_owed_heartbeats(ClientActions& out) noexcept {
  const std::size_t full = out.size() + kConsPerStep;
  std::uint16_t con = batch_.next;
  for (; con < cons_.size() && out.size() < full; ++con) send_owed_heartbeats(con, out);
  batch_.next = con < cons_.size() ? con : std::uint16_t{0};
}

void ClientPath::send_owed_heartbeats(std::uint16_t con, ClientActions& out) noexcept {
  SendQueue& queue = cons_[con].queue;
  if (con == 0 && ack_owed_ && queue.has_heartbeat_room()) {
    ack_owed_ = false;
    out.push(PostImm{key(con), wire::encode_hb(wire::ImmType::hb_ack), queue.take(1)});
  }
  Probe& probe = cons_[con].probe;
  if (!probe_ && probe.owed() && queue.has_heartbeat_room()) {
    probe.sent();
    out.push(ProbeDelivery{key(con), queue.take_signalled()});
  }
  // On the service connection, one HB_MSG serves as both heartbeat and probe.
  const bool owed = (probe_ && probe.owed()) || (con == 0 && message_owed_);
  if (!owed || !queue.has_heartbeat_room()) return;
  if (probe_) probe.sent();
  if (con == 0) message_owed_ = false;
  out.push(PostImm{key(con), wire::encode_hb(wire::ImmType::hb_msg), queue.take(1)});
}

}  // namespace rtrs
