// State of one path of a server session, its connections and the chunks of the session: plain values that
// ServerSession moves.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/base/growing_vector.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/actions.hpp"
#include "core/proto/config.hpp"
#include "core/proto/heartbeat.hpp"
#include "core/proto/ids.hpp"
#include "core/proto/inputs.hpp"
#include "core/proto/limits.hpp"
#include "core/proto/probe.hpp"
#include "core/proto/send_queue.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

inline constexpr std::uint16_t kNoChunk = 0xffff;

// Returns the number of receives of connection `cid` while its path is connected: the maximum number of
// messages that can arrive before the driver posts new receives. The service connection also receives
// heartbeats and fences. `probe`: the probe extension was granted.
constexpr unsigned server_receives(const ServerConfig& config, std::uint16_t cid, bool probe) noexcept {
  constexpr unsigned kServiceMessages = 64;
  constexpr unsigned kProbes = 1;  // a client has at most one unanswered probe
  const unsigned requests = config.imm_consumes_receive ? config.queue_depth : 0U;
  return requests + (cid == 0 ? kServiceMessages : probe && config.imm_consumes_receive ? kProbes : 0U);
}

// True if attempt `a` is newer than attempt `b` of the same path; the counter wraps at 16 bits.
constexpr bool newer_attempt(std::uint16_t a, std::uint16_t b) noexcept {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(a - b)) > 0;
}

struct ServerCon {
  std::uint32_t epoch = 0;  // 0: no connection
  bool owes_ack = false;    // a probe reply waits for room in the send queue
  SendQueue queue;
  Probe probe;  // detects that the connection delivers nothing
  // First-in first-out list of responses that wait for room in the send queue, linked through the chunks.
  std::uint16_t first_waiting = kNoChunk;
  std::uint16_t last_waiting = kNoChunk;
  bool operator==(const ServerCon&) const = default;
  RTRS_FIELDS(epoch, owes_ack, queue, probe, first_waiting, last_waiting)
};
using ServerCons = GrowingVector<ServerCon, kConsInside, kMaxCons>;

struct ServerPath {
  PathState state = PathState::absent;                   // absent, connecting, connected or closing
  Reason reason = Reason::none;                          // reason why the path closes
  wire::Extensions extensions = wire::Extensions::none;  // extensions granted to the path
  bool owes_ack = false;                                 // a heartbeat reply waits for room in the send queue
  bool owes_heartbeat = false;
  std::uint16_t recon_cnt = 0;
  std::uint16_t open_cons = 0;  // number of connections that have not reported ConnectionClosed
  std::uint16_t in_use = 0;     // number of chunks with an unanswered request of this path that is not parked
  std::uint16_t waiting = 0;    // number of responses that wait on its connections; included in in_use
  std::uint32_t incarnation = 0;  // epoch of the path's first connection
  std::uint32_t address_pair = 0;
  wire::Uuid uuid{};
  Nanos handshake_deadline = kNever;
  Heartbeat heartbeat;
  // Work of the batch, by state. connecting: posts receives. connected: sends heartbeats. closing: closes
  // connections.
  ConBatch batch;
  ServerCons cons;  // indexed by cid

  bool complete() const noexcept { return open_cons == cons.size(); }
  bool open() const noexcept { return state == PathState::connecting || state == PathState::connected; }
  bool drained() const noexcept { return state == PathState::closing && open_cons == 0 && in_use == 0; }
  bool operator==(const ServerPath&) const = default;
  RTRS_FIELDS(state, reason, extensions, owes_ack, owes_heartbeat, recon_cnt, open_cons, in_use, waiting,
              incarnation, address_pair, uuid, handshake_deadline, heartbeat, batch, cons)
};
using ServerPaths = GrowingVector<ServerPath, kPathsInside, kMaxPaths>;

// User of a chunk, and the data that its response needs. Copied on arrival, because the peer can still write
// the chunk.
struct ChunkUser {
  ConKey key;
  std::uint32_t incarnation = 0;
  std::uint8_t generation = 0;
  Direction direction = Direction::read;
  bool has_data = false;
  bool has_descriptor = false;
  bool need_invalidate = false;
  bool operator==(const ChunkUser&) const = default;
  RTRS_FIELDS(key, incarnation, generation, direction, has_data, has_descriptor, need_invalidate)
};

struct ServerChunk {
  enum class State : std::uint8_t { idle, invalidating, in_service, answering };
  State state = State::idle;
  bool from_park = false;   // `user` has waited in `parked` before
  bool has_parked = false;  // a request of another path incarnation waits for the chunk
  std::uint16_t serial = 0;
  std::uint16_t peer_errno = 0;  // errno of the response that waits for room
  std::uint16_t next_waiting = kNoChunk;
  ChunkUser user;
  ChunkUser parked;
  bool operator==(const ServerChunk&) const = default;
  RTRS_FIELDS(state, from_park, has_parked, serial, peer_errno, next_waiting, user, parked)
};

// An unanswered fence. There is one per pair of requesting path and fenced path.
struct PendingFence {
  ConKey asker;
  std::uint32_t serial = 0;
  std::uint16_t target = kMaxPaths;  // path that must drain before the answer; kMaxPaths: none
  wire::Uuid uuid{};
  bool operator==(const PendingFence&) const = default;
  template <class Self, class Visitor>
  static constexpr void visit_fields(Self& self, Visitor&& visit) {
    visit("asker", self.asker);
    visit("serial", self.serial);
    // Hashes use 8 for "no path", as when a session had 8 paths.
    if constexpr (std::is_const_v<Self>) {
      const auto number = static_cast<std::uint16_t>(self.target == kMaxPaths ? 8
                                                     : self.target < 8        ? self.target
                                                                              : self.target + 1);
      visit("target", number);
    } else {
      std::uint16_t number = 0;
      visit("target", number);
      self.target = static_cast<std::uint16_t>(number == 8 ? kMaxPaths : number < 8 ? number : number - 1U);
    }
    visit("uuid", self.uuid);
  }
};
using PendingFences = GrowingVector<PendingFence, kFencesInside, kMaxFences>;

}  // namespace rtrs
