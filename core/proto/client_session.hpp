// Client side of one session: paths, permits, the path of each request, and failover. A value type without a
// clock and without shared state: time and events are inputs, the work to do is the output (inputs.hpp,
// actions.hpp). Only adding a path allocates memory (for its connections).
//
// Every accepted request (Submitted) gets exactly one Complete. A request of a lost path is resent on another
// path only after the old path is drained on the client. If the peer supports the fence, the old incarnation
// must also be known to be closed and drained on the server. After a write failed with no_path, later
// requests also wait for that proof, because the failed write must not execute after a later request was
// acknowledged.
//
// Counterparts in Linux 6.12 (rtrs-clt.c; rtrs.c for the heartbeat):
//   protocol section 3.1  connections and INFO: init_conns, rtrs_rdma_conn_established, process_info_rsp
//   protocol section 3.4  first_conn, 3.5 recon_cnt: rtrs_rdma_route_resolved, init_conns
//   protocol section 4.1  states of a path: rtrs_clt_change_state, rtrs_rdma_error_recovery,
//                         rtrs_clt_reconnect_work
//   protocol section 4.2  order of the teardown: rtrs_clt_stop_and_destroy_conns
//   protocol section 5.1  permits: rtrs_clt_get_permit, rtrs_clt_put_permit
//   protocol section 5.2  submission: rtrs_clt_request
//   protocol section 5.6  responses: process_io_rsp, rtrs_clt_rkey_rsp_done, complete_rdma_req
//   protocol section 6.1  policies: get_next_path_rr, get_next_path_min_inflight, get_next_path_min_latency
//   protocol section 6.2  failover: fail_all_outstanding_reqs, rtrs_clt_failover_req
//   protocol section 6.3  operators: rtrs_clt_create_path_from_sysfs, rtrs_clt_reconnect_from_sysfs,
//                         rtrs_clt_remove_path_from_sysfs
//   protocol section 6.4  link events: rtrs_clt_path_up, rtrs_clt_path_down
//   protocol section 7    heartbeat: hb_work, rtrs_send_hb_ack
// The fence, generations and the probe are urtrs extensions (protocol section 12).
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/base/uncompared.hpp"
#include "core/proto/actions.hpp"
#include "core/proto/client_path.hpp"
#include "core/proto/config.hpp"
#include "core/proto/inputs.hpp"
#include "core/proto/jitter.hpp"
#include "core/proto/multipath.hpp"
#include "core/proto/permits.hpp"

namespace rtrs {

struct ClientCounters {
  std::uint64_t stale_events = 0;  // number of ignored events of older incarnations
  // Number of ignored responses for a permit that no longer waits for a response.
  std::uint64_t stale_responses = 0;
  std::uint64_t violations = 0;  // number of protocol violations by the server; each closes a path
  // Number of writes and service messages that failed with no_path although the server may still execute
  // them, and that had no fence to delay later requests (ClientConfig::kernel_peer, fence_failed).
  std::uint64_t unproven_failures = 0;
};

class ClientSession {
 public:
  explicit ClientSession(const ClientConfig& config) noexcept;

  void on(const PathAdded&, ClientActions&) noexcept;
  void on(const PathRemoveRequested&, ClientActions&) noexcept;
  void on(const PathDisconnectRequested&, ClientActions&) noexcept;
  void on(const PathReconnectRequested&, ClientActions&) noexcept;
  void on(const PolicyChanged&, ClientActions&) noexcept;
  void on(const AttemptsChanged&, ClientActions&) noexcept;
  void on(const CloseRequested&, ClientActions&) noexcept;
  void on(const AddressesFound&, ClientActions&) noexcept;
  void on(const Connected&, ClientActions&) noexcept;
  void on(const ConnectFailed&, ClientActions&) noexcept;
  void on(const ConnectionLost&, ClientActions&) noexcept;
  void on(const ConnectionClosed&, ClientActions&) noexcept;
  void on(const InfoAccepted&, ClientActions&) noexcept;
  void on(const ImmReceived&, ClientActions&) noexcept;
  void on(const KeyedResponseReceived&, ClientActions&) noexcept;
  void on(const KeyInvalidated&, ClientActions&) noexcept;
  void on(const FenceAnswered&, ClientActions&) noexcept;
  void on(const SendDone&, ClientActions&) noexcept;
  void on(const PeerBroke&, ClientActions&) noexcept;
  void on(const Submitted&, ClientActions&) noexcept;
  void on(const DeadlineReached&, ClientActions&) noexcept;
  void on(const Continued&, ClientActions&) noexcept;

  // Latest time at which the owner must feed DeadlineReached.
  Nanos next_deadline() const noexcept;
  // True if a batch is unfinished: the owner must feed Continued.
  bool wants_to_continue() const noexcept { return pump_; }

  // The permit that the next Submitted must name; kNoPermit if all permits are in use or the session was
  // never connected.
  std::uint16_t next_permit() const noexcept { return closing_ ? kNoPermit : permits_.next(); }
  // Time at which a request that waits since `since` fails if neither a path nor a permit becomes available:
  // `queue_timeout` after the latest of `since`, the loss of the last path, and the time when the server
  // might still execute failed requests on all permits. kNever while a path is connected and at least one
  // permit is usable, and if requests wait without limit. Also valid for requests that the caller queues
  // because no permit is free.
  Nanos path_wait_ends(Nanos since) const noexcept;
  bool opened() const noexcept { return permits_.depth() != 0; }
  bool closing() const noexcept { return closing_; }
  bool ended() const noexcept { return ended_; }
  unsigned connected_paths() const noexcept { return connected_; }
  // True if the server of a connected path granted an extension, so that it is not a kernel server.
  bool peer_extends() const noexcept;
  unsigned permits_used() const noexcept { return permits_.used(); }
  // Number of permits of failed requests that the server may still execute. The chunks of these permits stay
  // unused until there is proof that the server will not execute the requests.
  unsigned permits_given_up() const noexcept { return permits_.given_up(); }
  bool permits_exhausted() const noexcept { return opened() && permits_.given_up() == permits_.depth(); }
  unsigned depth() const noexcept { return permits_.depth(); }
  std::uint32_t queue_depth() const noexcept {
    return queue_depth_;
  }  // announced by the server; used to encode immediates
  std::uint32_t max_io_size() const noexcept { return max_io_size_; }
  std::uint32_t max_hdr_size() const noexcept { return max_hdr_size_; }
  // Upper bound of the indices of all paths ever added.
  unsigned path_limit() const noexcept { return static_cast<unsigned>(paths_.size()); }
  // Returns an absent path if no path was ever added at `index`.
  const ClientPath& path(unsigned index) const noexcept {
    return index < paths_.size() ? paths_[index] : kAbsentPath;
  }
  const Permit& permit(std::uint16_t id) const noexcept { return permits_[id]; }
  // Finds the unanswered request that was sent first, including requests that wait to be resent. Returns
  // false if there is none. Linear in the depth.
  bool oldest_in_flight(OldestRequest&) const noexcept;
  const ClientConfig& config() const noexcept { return config_; }
  const ClientCounters& counters() const noexcept { return counters_; }

  std::uint64_t fingerprint() const noexcept;
  // Returns the name of the first violated invariant, or null. Linear in the depth.
  const char* broken_invariant() const noexcept;
  bool operator==(const ClientSession&) const = default;
  RTRS_FIELDS(config_, jitter_, paths_, fences_, permits_, queue_depth_, max_io_size_, max_hdr_size_,
              connected_, down_since_, exhausted_since_, cursor_, next_fence_serial_, queue_head_,
              queue_tail_, queued_, overdue_, close_deadline_, link_since_, alive_at_, ever_connected_, pump_,
              giving_way_, new_home_, closing_, closing_paths_, ended_, batches_, answers_due_)

 private:
  // Fence of one lost path. Requests of the path wait until the server's old incarnation of the path is known
  // to be closed and drained.
  struct Fence {
    enum class State : std::uint8_t { idle, wanted, asked };
    State state = State::idle;
    bool lingering = false;  // the server may still execute a failed request of the path
    std::uint32_t upto_epoch = 0;
    std::uint32_t serial = 0;
    ConKey asked_over{};
    Nanos since = 0;          // time since which the requests of the path wait
    Nanos deadline = kNever;  // deadline for the answer
    bool operator==(const Fence&) const = default;
    RTRS_FIELDS(state, lingering, upto_epoch, serial, asked_over, since, deadline)
  };
  // Paths that have connections left to process (ClientPath::in_batch).
  struct Batches {
    static constexpr bool kDefaultIsNotHashed = true;  // keeps fingerprints of older traces valid
    bool left = false;
    bool operator==(const Batches&) const = default;
    RTRS_FIELDS(left)
  };
  static const ClientPath kAbsentPath;

  // Returns null for a key of an older incarnation, and counts such events.
  ClientPath* current(const ConKey&) noexcept;
  void finish_step(Nanos now, ClientActions&) noexcept;

  // Selection of the path that creates the session; defined in client_leading.cpp.
  void start_path(unsigned index, Nanos now, ClientActions&) noexcept;
  void start_waiting_paths(unsigned after, Nanos now, ClientActions&) noexcept;
  bool other_path_can_restore(unsigned index) const noexcept;
  bool may_lead(unsigned index) const noexcept;
  bool refused_beside_session(const ClientPath&) const noexcept;
  bool creates(unsigned index, Nanos now) const noexcept;
  Nanos turn_to_lead(unsigned index, Nanos now) const noexcept;
  void unknown_at_server(unsigned index, Nanos now) noexcept;
  void join_next() noexcept;
  void give_way(Nanos now, ClientActions&) noexcept;

  // Start and end of paths; defined in client_session.cpp.
  void end_path(unsigned index, Nanos now, ClientPath::Goal, Reason, ClientActions&) noexcept;
  bool limits_are_held(unsigned index) const noexcept;
  void lose_path(unsigned index, Nanos now, Reason, std::uint16_t peer_errno, ClientActions&) noexcept;
  void path_drained(unsigned index, Nanos now, ClientActions&) noexcept;
  void bring_up(unsigned index, Nanos now, ClientActions&) noexcept;
  void path_up(unsigned index, Nanos now, ClientActions&) noexcept;
  void continue_batch(Nanos now, ClientActions&) noexcept;
  void schedule_attempt(unsigned index, Nanos now, ClientActions&) noexcept;
  bool server_lost_session(const ClientPath&) const noexcept;
  Nanos attempt_delay(const ClientPath&, Nanos now) noexcept;
  void path_deadline(unsigned index, Nanos now, ClientActions&) noexcept;
  void report(unsigned index, Nanos delay, ClientActions&) const noexcept;
  void violation(unsigned index, Nanos now, ClientActions&) noexcept;

  // Requests; defined in client_requests.cpp.
  void enqueue(std::uint16_t id, Nanos now) noexcept;
  std::uint16_t dequeue() noexcept;
  bool send(std::uint16_t id, Nanos now, ClientActions&) noexcept;
  void pump(Nanos now, ClientActions&) noexcept;
  void complete(std::uint16_t id, Errc, std::uint16_t peer_errno, ClientActions&) noexcept;
  // `keyed`: the response carried a fresh key for its chunk.
  void response(const ConKey&, Nanos now, std::uint32_t imm, bool keyed, ClientActions&) noexcept;
  void end_if_drained(ClientActions&) noexcept;

  // Failover and fences; defined in client_failover.cpp.
  void hold_requests(unsigned index, Nanos now) noexcept;
  void release_requests(unsigned index, bool proven, Nanos now) noexcept;
  void drive_fences(Nanos now, ClientActions&) noexcept;
  bool nobody_to_ask() const noexcept;
  bool holds_new_requests() const noexcept;
  bool any_lingers() const noexcept;
  bool awaits_fence_answer(const ConKey&) const noexcept;
  Nanos overdue_at(const Permit&) const noexcept;
  Nanos longest_life() const noexcept;
  bool exceeds_longest_life(const Permit&, Nanos now) const noexcept;
  void expire_fenced_requests(unsigned index, Nanos now) noexcept;
  Nanos answer_deadline(const Permit&) const noexcept;
  Nanos first_answer_deadline() const noexcept;
  void answers_are_due(Nanos now, ClientActions&) noexcept;
  bool answer_overdue(unsigned& budget, ClientActions&) noexcept;
  void fence_deadlines(Nanos now) noexcept;
  bool fail_held(Nanos now, unsigned& budget, ClientActions&) noexcept;

  struct PathEnd {
    unsigned index = 0;
  };
  struct Lingering {
    bool possible = true;
  };

  // No request is overdue before `at`. One timer serves all requests. Responses do not change it; when it
  // fires, it is set to the deadline of the oldest request.
  struct AnswersDue {
    static constexpr bool kDefaultIsNotHashed =
        true;  // keeps fingerprints valid in traces without request_timeout
    Nanos at = kNever;
    bool operator==(const AnswersDue&) const = default;
    RTRS_FIELDS(at)
  };

  ClientConfig config_;
  Jitter jitter_;
  PathTable paths_{};
  // Index after the highest path that was ever added. Cached, because every IO needs the next deadline.
  Uncompared<PathEnd> path_end_;
  GrowingVector<Fence, kPathsInside, kMaxPaths> fences_;  // indexed by path
  // False only if no fence has `lingering` set. Cached, because every IO checks it and it is nearly always
  // false.
  Uncompared<Lingering> lingering_;
  PermitPool permits_;
  std::uint32_t queue_depth_ = 0;
  std::uint32_t max_io_size_ = 0;
  std::uint32_t max_hdr_size_ = 0;
  std::uint32_t connected_ = 0;
  Nanos down_since_ = 0;  // time at which the last path was lost; 0 while one is connected
  // Time since which no permit is usable; kNever: at least one permit is usable.
  Nanos exhausted_since_ = kNever;
  std::uint32_t cursor_ = 0;
  std::uint32_t next_fence_serial_ = 1;
  std::uint16_t queue_head_ = kNoPermit;
  std::uint16_t queue_tail_ = kNoPermit;
  std::uint32_t queued_ = 0;
  std::uint32_t overdue_ = 0;  // number of overdue permits
  Nanos close_deadline_ = kNever;
  Nanos link_since_ = 0;  // time of the last LinkChanged
  // Send time of the newest message that the server answered. The session existed at that time.
  Nanos alive_at_ = 0;
  bool ever_connected_ = false;
  bool pump_ = false;
  bool giving_way_ = false;  // a path has connected, and give_way() has not handled all other paths yet
  bool new_home_ = false;    // exactly one path is connected, and it is new
  bool closing_ = false;
  bool closing_paths_ = false;
  bool ended_ = false;
  Batches batches_;
  AnswersDue answers_due_;
  Uncompared<ClientCounters> counters_;
};

}  // namespace rtrs
