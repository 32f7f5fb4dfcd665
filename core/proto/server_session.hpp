// Server side of one session: its paths, connections and chunks. A value type: no clock, no IO; inputs in,
// actions out (inputs.hpp, actions.hpp). Memory is allocated only for fences and for the connections of a
// path, when its first connect request arrives; without memory the request is rejected. Path numbers in
// actions and inputs other than ConKey are indices in the session.
//
// A chunk belongs to the session, is reachable over every path and has one user at a time. A request for a
// chunk that another path incarnation still uses waits (the gate), so that a replay never overtakes the
// request that it replaces. A second request of the same incarnation is a protocol violation and closes its
// path.
//
// Counterparts in Linux 6.12 (rtrs-srv.c; rtrs.c for the heartbeat):
//   protocol section 2.3  INFO_REQ: process_info_req
//   protocol section 2.7  checks of a request: rtrs_srv_rdma_done, process_io_req
//   protocol section 3.2  connect requests: rtrs_rdma_connect, rtrs_rdma_do_accept, rtrs_rdma_do_reject
//   protocol section 4.3  states of a path, closing: rtrs_srv_change_state, close_path, rtrs_srv_close_work
//   protocol section 5.5  responses: rdma_write_sg, send_io_resp_imm; keys: rtrs_srv_inv_rkey
//   protocol section 5.7  the upper layer: process_read, process_write, rtrs_srv_resp_rdma
//   protocol section 5.8  requests in service, responses without room: rtrs_srv_get_ops_ids,
//                         rtrs_srv_put_ops_ids, rtrs_rdma_process_wr_wait_list
//   protocol section 6.4  link events: rtrs_srv_path_up, rtrs_srv_path_down
//   protocol section 7    heartbeat: hb_work, rtrs_send_hb_ack
// Linux has no gate (protocol section 6.2), no time limit for the handshake (protocol section 3.2) and no
// fence (protocol section 12).
#pragma once
#include <cstdint>

#include "core/base/fixed_vector.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/actions.hpp"
#include "core/proto/config.hpp"
#include "core/proto/inputs.hpp"
#include "core/proto/limits.hpp"
#include "core/proto/server_path.hpp"

namespace rtrs {

class ServerSession {
 public:
  // Statistics; not part of the state.
  struct Counters {
    std::uint64_t stale_events = 0;       // events of closed connections
    std::uint64_t dropped_responses = 0;  // responses dropped because their path was lost
    std::uint64_t gated = 0;              // requests that waited for an older user of their chunk
  };

  ServerSession(const ServerConfig&, std::uint16_t index) noexcept;

  // Returns the path index for a connect request with this path identity: the index of the path that has the
  // identity, else the first free index, else kMaxPaths.
  std::uint16_t assign(const wire::Uuid& sess_uuid) const noexcept;

  void on(const ConnectRequested&, ServerActions&) noexcept;
  void on(const ConnectionLost&, ServerActions&) noexcept;
  void on(const ConnectionClosed&, ServerActions&) noexcept;
  void on(const InfoRequested&, ServerActions&) noexcept;
  void on(const RequestArrived&, ServerActions&) noexcept;
  void on(const ChunkInvalidated&, ServerActions&) noexcept;
  void on(const FenceRequested&, ServerActions&) noexcept;
  void on(const Responded&, ServerActions&) noexcept;
  void on(const ImmReceived&, ServerActions&) noexcept;
  void on(const SendDone&, ServerActions&) noexcept;
  void on(const PeerBroke&, ServerActions&) noexcept;
  void on(const PathDisconnectRequested&, ServerActions&) noexcept;
  void on(const CloseRequested&, ServerActions&) noexcept;
  void on(const DeadlineReached&, ServerActions&) noexcept;
  void on(const Continued&, ServerActions&) noexcept;

  Nanos next_deadline() const noexcept;
  bool wants_to_continue() const noexcept;
  std::uint64_t fingerprint() const noexcept;
  bool operator==(const ServerSession& other) const noexcept {
    return config_ == other.config_ && state_ == other.state_;
  }
  RTRS_FIELDS(config_, state_)

  std::uint16_t index() const noexcept { return state_.index; }
  bool ended() const noexcept { return state_.ended; }
  unsigned connected_paths() const noexcept { return state_.connected; }
  // Upper bound of the indices of all paths ever used.
  unsigned path_limit() const noexcept { return static_cast<unsigned>(state_.paths.size()); }
  PathState path_state(unsigned path) const noexcept {
    return path < state_.paths.size() ? state_.paths[path].state : PathState::absent;
  }
  // Precondition: below path_limit().
  const ServerPath& path(unsigned index) const noexcept { return state_.paths[index]; }
  // True if the connection of this key exists and has not reported ConnectionClosed.
  bool knows(ConKey key) const noexcept { return find(key) != nullptr; }
  // Returns the extensions granted on the connection's path; none for a stale key.
  wire::Extensions granted(ConKey) const noexcept;
  bool chunk_idle(std::uint16_t chunk) const noexcept {
    return state_.chunks[chunk].state == ServerChunk::State::idle;
  }
  // True if a request of an open path waits for the chunk.
  bool is_awaited(std::uint16_t chunk) const noexcept {
    return state_.chunks[chunk].has_parked && live(state_.chunks[chunk].parked);
  }
  // True if the request will wait because another request uses its chunk. Its headers then replace the
  // headers of a request that already waits.
  bool will_wait_for_chunk(const RequestArrived&) const noexcept;
  // Read-only state for status reports and tests: all chunks, and the unanswered fences.
  const auto& chunks() const noexcept { return state_.chunks; }
  const auto& fences() const noexcept { return state_.fences; }
  bool closing() const noexcept { return state_.closing; }
  const Counters& counters() const noexcept { return counters_; }

 private:
  // Paths that have a batch of connections left (ServerPath::batch).
  struct Batches {
    static constexpr bool kDefaultIsNotHashed = true;  // keeps fingerprints of older traces valid
    std::uint16_t paths = 0;
    bool operator==(const Batches&) const = default;
    RTRS_FIELDS(paths)
  };
  struct State {
    std::uint16_t index = 0;
    std::uint16_t connected = 0;  // number of connected paths
    std::uint16_t waiting = 0;    // responses that wait for room, over all connections
    bool closing = false;
    bool ended = false;
    Batches batches;
    ServerPaths paths;
    PendingFences fences;
    FixedVector<ServerChunk, kMaxPermits> chunks;
    bool operator==(const State&) const = default;
    RTRS_FIELDS(index, connected, waiting, closing, ended, batches, paths, fences, chunks)
  };
  struct Verdict {
    Reason reason = Reason::none;  // none: the request is accepted
    int peer_errno = 0;
    bool supersedes = false;
  };

  ConKey key_of(unsigned path, unsigned con) const noexcept;
  const ServerPath* find(ConKey) const noexcept;
  // Returns the path of the connection. Returns null for a stale key, which is counted.
  ServerPath* current(ConKey) noexcept;

  Verdict judge(const ConnectRequested&, std::uint16_t path) const noexcept;
  [[nodiscard]] bool provide(std::uint16_t path, std::uint16_t cons) noexcept;
  void close_path(std::uint16_t path, Reason, ServerActions&) noexcept;
  // Sets the connection at which the next step continues the batch; ends the batch if `next` is beyond the
  // last one.
  void set_batch(ServerPath&, std::size_t next) noexcept;
  void continue_batch(Nanos now, ServerActions&) noexcept;
  void end_connections(std::uint16_t path, ServerActions&) noexcept;
  void bring_up(std::uint16_t path, Nanos now, ServerActions&) noexcept;
  void send_all_owed(ServerPath&, ServerActions&) noexcept;
  void finish_path(std::uint16_t path, ServerActions&) noexcept;
  void end_if_empty(Reason, ServerActions&) noexcept;
  void post_receive(ConKey, ServerActions&) const noexcept;
  // Sends heartbeats and probe replies that wait for room on connection `cid`.
  void send_owed(ServerPath&, unsigned cid, ServerActions&) noexcept;
  void answer_fences(ServerActions&) noexcept;
  // Returns false if it closed the path.
  bool tick(std::uint16_t path, Nanos now, ServerActions&) noexcept;
  [[nodiscard]] bool probe_deliveries(ServerPath&) const noexcept;

  bool live(const ChunkUser&) const noexcept;
  // Returns none if the request may wait for its chunk, which is in use; else the reason to close the path of
  // the request.
  Reason gate_refusal(const ServerChunk&, const ChunkUser&) const noexcept;
  void gate(std::uint16_t chunk, const ChunkUser&, ServerActions&) noexcept;
  void start(std::uint16_t chunk, const ChunkUser&, bool parked, ServerActions&) noexcept;
  void deliver(std::uint16_t chunk, ServerActions&) noexcept;
  bool invalidates(const ChunkUser&) const noexcept;    // the response begins with SEND_WITH_INV
  bool may_join_data(const ChunkUser&) const noexcept;  // the data write may serve as the response
  bool renews_key(
      const ChunkUser&) const noexcept;  // the chunk's key is invalidated before the request is served
  bool joins_data(const ServerChunk&) const noexcept;
  unsigned answer_entries(const ServerChunk&) const noexcept;
  void answer(std::uint16_t chunk, ServerActions&) noexcept;
  void wait(std::uint16_t chunk) noexcept;
  // Posts up to `budget` waiting responses; drops them if the path is closing. Returns the rest of the
  // budget.
  unsigned drain_waiting(std::uint16_t path, unsigned con, unsigned budget, ServerActions&) noexcept;
  void free_chunk(std::uint16_t chunk, ServerActions&) noexcept;

  ServerConfig config_;
  State state_;
  Counters counters_;
};

}  // namespace rtrs
