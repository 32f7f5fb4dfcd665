// One path of a client session: connects every connection, exchanges INFO, carries requests, detects loss and
// drains. ClientSession decides about requests and about the time of the next attempt.
//
//   absent -> connecting -> connected -> draining -> waiting -> connecting ...
//                   \____________________/   \-> closing -> closed | absent
//
// If an operator asks for a closing path again, the path goes to connecting or waiting.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/base/growing_vector.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/actions.hpp"
#include "core/proto/config.hpp"
#include "core/proto/heartbeat.hpp"
#include "core/proto/ids.hpp"
#include "core/proto/inputs.hpp"
#include "core/proto/probe.hpp"
#include "core/proto/send_queue.hpp"

namespace rtrs {

struct ClientConnection {
  enum class State : std::uint8_t { connecting, up, disconnecting, closed };
  SendQueue queue;
  State state = State::connecting;
  std::uint16_t inflight = 0;
  Probe probe;
  bool operator==(const ClientConnection&) const = default;
  RTRS_FIELDS(queue, state, inflight, probe)
};
using ClientConnections = GrowingVector<ClientConnection, kConsInside, kMaxCons>;

class ClientPath {
 public:
  // The path's next step after it is drained.
  enum class Goal : std::uint8_t { retry, retry_at_once, close, remove, answer_challenge, next_address };

  PathState state() const noexcept { return state_; }
  bool connected() const noexcept { return state_ == PathState::connected; }
  std::uint32_t epoch() const noexcept { return epoch_; }
  std::uint32_t attempts() const noexcept { return attempts_; }
  Reason reason() const noexcept { return reason_; }
  std::uint16_t peer_errno() const noexcept { return peer_errno_; }
  Goal goal() const noexcept { return goal_; }
  Nanos deadline() const noexcept { return std::min(deadline_, heartbeat_.deadline()); }
  Nanos latency() const noexcept { return latency_; }
  std::uint32_t inflight() const noexcept { return inflight_; }
  // True if the path's number of requests in flight equals the sum over its connections.
  bool counts_add_up() const noexcept;
  bool fresh_keys() const noexcept { return chunk_keys_ != ChunkKeys::stay; }
  bool can_fence() const noexcept { return fence_; }
  bool has_generations() const noexcept { return generations_; }
  bool has_probe() const noexcept { return probe_; }
  // True if the data write of a READ may serve as its response, without a fresh key.
  bool reads_may_leave_keys() const noexcept { return chunk_keys_ == ChunkKeys::fresh_for_writes; }
  // True if the path waits because another path tries to create the session.
  bool held_back() const noexcept { return state_ == PathState::waiting && held_back_; }
  // True if this attempt requests a new session and the path was never connected in one. An earlier attempt
  // may have created a session in which no path was connected.
  bool leads() const noexcept { return first_ && !came_up_; }
  bool came_up() const noexcept { return came_up_; }
  // True if the attempt in progress creates a session on a server that has none.
  bool may_create() const noexcept { return state_ == PathState::connecting && first_; }
  // Time of the first "unknown session" rejection since the server last accepted the path; kNever: none.
  Nanos unknown_since() const noexcept { return unknown_since_; }
  // True if the server sent the "unknown session" rejection more than once since unknown_since().
  bool unknown_again() const noexcept { return unknown_again_; }
  bool foreign() const noexcept { return foreign_; }
  std::uint16_t con_count() const noexcept { return static_cast<std::uint16_t>(cons_.size()); }
  ConKey key(std::uint16_t con) const noexcept { return {index_, con, epoch_}; }
  // True if the key belongs to the current incarnation and has not had its last event.
  bool owns(const ConKey& key) const noexcept;

  // Returns false, changing nothing, if there is no memory for `cons` connections.
  [[nodiscard]] bool add(std::uint16_t index, std::uint16_t cons) noexcept;
  // Starts an attempt; `first` is the first_conn mark of cid 0 (protocol section 3.4).
  void start(Nanos now, const ClientConfig&, bool first, ClientActions&) noexcept;
  void wait_until(Nanos when, Reason) noexcept;  // enters the state `waiting`
  void hold_back(Nanos when) noexcept;           // like wait_until(), until this path may create the session
  void settle(PathState, Reason) noexcept;       // enters the state `closed` or `absent`
  void set_goal(Goal goal) noexcept { goal_ = goal; }
  void forget_attempts() noexcept {
    attempts_ = 0;
    addresses_.tried = 0;
  }
  // Aborts an attempt that asks for a new session; the next attempt joins the session that another path
  // created.
  void give_way() noexcept {
    join_next();
    goal_ = Goal::retry_at_once;
  }
  // Like give_way(), while no attempt is in progress.
  void join_next() noexcept { first_ = came_up_ = false; }
  // The server rejected a joining attempt because it does not know the session. `foreign`: the session is
  // alive on another server.
  void not_known(Nanos now, bool foreign) noexcept;
  void set_foreign() noexcept { foreign_ = true; }
  // The server requires a proof of the shared key: the next attempt carries it, starts at once and counts as
  // part of this one. If the server challenges that attempt too, the path treats it as an ordinary rejection,
  // so that no server can keep a client busy.
  bool answers_challenge() const noexcept { return challenge_.answered; }
  void take_challenge() noexcept { goal_ = Goal::answer_challenge; }
  void same_attempt() noexcept {
    if (attempts_ > 0) --attempts_;
  }
  bool joins() const noexcept { return !first_; }

  // Index of the address that the attempt uses if the path's host name has several addresses.
  std::uint16_t address() const noexcept { return addresses_.next; }
  // The lookup for the first connection of the attempt returned `count` addresses.
  void addresses_found(Nanos now, std::uint16_t count, const ClientConfig&) noexcept;
  // The attempt failed with reason(). Selects the next address, unless the server at the current address is
  // the right one. The next attempt starts without a delay until every address was tried.
  void leave_address() noexcept;

  // The peer accepted `in.key`: connects the next connection, or sends INFO_REQ after the last one.
  void connection_up(const Connected& in, const ClientConfig&, ClientActions&) noexcept;
  // INFO_RSP arrived: posts receives, in batches. Returns true when every connection has its receives.
  [[nodiscard]] bool post_receives(const ClientConfig&, unsigned depth, ClientActions&) noexcept;
  // Call when all receives are posted. Starts the heartbeat.
  void come_up(Nanos now, const ClientConfig&) noexcept;
  // Leaves state connecting or connected and closes every open connection, in batches. Returns true if no
  // connection was open.
  bool lose(Reason, std::uint16_t peer_errno, ClientActions&) noexcept;
  void end_connections(ClientActions&) noexcept;
  // True if the last step of post_receives(), end_connections() or send_owed_heartbeats() did not reach all
  // connections. Call the same function again: post_receives() if the path is connecting,
  // send_owed_heartbeats() if it is connected, else end_connections().
  bool in_batch() const noexcept { return batch_.next != 0; }
  // Returns true if this was the last open connection.
  bool connection_closed(const ConKey&) noexcept;

  bool expects_connection(const ConKey& key) const noexcept {
    return state_ == PathState::connecting && cons_[key.con].state == ClientConnection::State::connecting;
  }
  // True if the server has accepted the attempt in progress.
  bool accepted() const noexcept {
    return state_ == PathState::connecting && cons_[0].state == ClientConnection::State::up;
  }
  // True if INFO_REQ was sent and is not answered.
  bool expects_info(const ClientConfig& config) const noexcept {
    return state_ == PathState::connecting && cons_.size() == config.con_num && !in_batch() &&
           cons_[cons_.size() - 1].state == ClientConnection::State::up;
  }
  // Returns the kind of the receive that replaces a consumed one.
  ReceiveKind receive_kind(std::uint16_t con) const noexcept {
    return con == 0 || fresh_keys() ? ReceiveKind::message : ReceiveKind::empty;
  }

  // True if the send queue has room for one request on `con`. take() returns the cookie of the request.
  bool has_room(std::uint16_t con) const noexcept { return cons_[con].queue.has_room(1); }
  std::uint64_t take(std::uint16_t con) noexcept { return cons_[con].queue.take(1); }
  [[nodiscard]] bool retire(const ConKey& key, std::uint64_t cookie) noexcept {
    ClientConnection& con = cons_[key.con];
    if (!probe_) {
      con.probe.received();
      con.probe.answered();
    }
    return con.queue.retire(cookie);
  }
  void request_sent(std::uint16_t con) noexcept {
    ++inflight_;
    ++cons_[con].inflight;
  }
  void request_ended(std::uint16_t con) noexcept {
    RTRS_ASSERT(inflight_ > 0 && cons_[con].inflight > 0);
    --inflight_;
    --cons_[con].inflight;
  }

  void received(std::uint16_t con) noexcept {
    heartbeat_.received();
    cons_[con].probe.received();
  }
  void heartbeat_message(ClientActions&) noexcept;  // replies to an HB_MSG
  void heartbeat_acknowledged(std::uint16_t con, Nanos now) noexcept {
    cons_[con].probe.answered();
    if (con == 0) latency_ = heartbeat_.acknowledged(now);
  }
  // Returns the send time of the HB_MSG that was acknowledged last.
  Nanos heartbeat_sent() const noexcept { return heartbeat_.last_sent(); }
  Nanos silent_since() const noexcept {
    return state_ == PathState::connected ? heartbeat_.silent_since() : kNever;
  }
  // `fencing`: a fence request on the service connection is unanswered. Returns Reason::none, or the reason
  // why the path is dead.
  [[nodiscard]] Reason heartbeat_due(Nanos now, const ClientConfig&, bool fencing, ClientActions&) noexcept;
  // Sends heartbeats that waited for room in the send queue of connection `con`.
  void send_owed_heartbeats(std::uint16_t con, ClientActions&) noexcept;
  // Sends the owed heartbeats of all connections, in batches.
  void send_owed_heartbeats(ClientActions&) noexcept;

  bool operator==(const ClientPath&) const = default;
  RTRS_FIELDS(index_, state_, goal_, reason_, peer_errno_, epoch_, attempts_, deadline_, heartbeat_, latency_,
              inflight_, chunk_keys_, fence_, generations_, probe_, first_, came_up_, held_back_, foreign_,
              unknown_since_, unknown_again_, ack_owed_, message_owed_, challenge_, addresses_, batch_, cons_)

 private:
  // Effect of responses on the rkeys of the server's chunks. Fingerprints contain the number; older traces
  // contain 0 and 1.
  enum class ChunkKeys : std::uint8_t { stay, fresh, fresh_for_writes };

  // Challenge state of the attempt in progress.
  struct Challenge {
    static constexpr bool kDefaultIsNotHashed = true;  // keeps fingerprints of older traces valid
    bool answered = false;
    bool operator==(const Challenge&) const = default;
    RTRS_FIELDS(answered)
  };

  // Addresses of the path's host name. One attempt, as counted by attempts(), tries all addresses.
  struct Addresses {
    static constexpr bool kDefaultIsNotHashed = true;  // keeps fingerprints of older traces valid
    std::uint16_t count = 0;  // number of addresses found for this attempt; 0: one address
    std::uint16_t next = 0;
    std::uint16_t tried = 0;  // number of addresses that failed in this round
    bool operator==(const Addresses&) const = default;
    RTRS_FIELDS(count, next, tried)
  };

  bool outstanding(std::uint16_t con, bool fencing) const noexcept {
    return cons_[con].inflight > 0 || (con == 0 && fencing);
  }
  void connect_next(Nanos now, const ClientConfig&, ClientActions&) noexcept;
  bool all_closed() const noexcept;

  std::uint16_t index_ = 0;
  PathState state_ = PathState::absent;
  Goal goal_ = Goal::retry;
  Reason reason_ = Reason::none;
  std::uint16_t peer_errno_ = 0;
  std::uint32_t epoch_ = 0;     // number of attempts so far; the low 16 bits are recon_cnt
  std::uint32_t attempts_ = 0;  // attempts since the path was last connected
  Nanos deadline_ = kNever;     // deadline of the handshake step, or end of the pause before the next attempt
  Heartbeat heartbeat_;
  Nanos latency_ = 0;
  std::uint32_t inflight_ = 0;
  ChunkKeys chunk_keys_ = ChunkKeys::stay;
  bool fence_ = false;
  bool generations_ = false;
  bool probe_ = false;
  bool first_ = false;
  bool came_up_ = false;  // the path has been connected in the session that its last attempt requested
  bool held_back_ = false;
  bool foreign_ = false;
  Nanos unknown_since_ = kNever;
  bool unknown_again_ = false;
  bool ack_owed_ = false;
  bool message_owed_ = false;
  Challenge challenge_;
  Addresses addresses_;
  ConBatch batch_;
  ClientConnections cons_;
};

}  // namespace rtrs
