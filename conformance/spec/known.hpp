// State of a session machine in the middle of a run, read from a snapshot. The
// specification can begin with this state. Facts that a machine does not keep are unknown: receives, proofs
// of fences, messages on the wire.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/spec/connection.hpp"
#include "conformance/spec/event.hpp"

namespace rtrs::spec {

struct KnownHeartbeat {
  Time deadline = 0;
  Time asked = 0;  // time of the last HB_MSG; 0: none
  std::uint32_t missed = 0;
  bool owes_message = false;
  bool owes_ack = false;
};

struct KnownPath {
  PathState state = PathState::absent;  // unknown: a step of the path is unfinished
  std::uint32_t epoch = 0;              // client: number of attempts; server: epoch of the first connection
  std::uint16_t recon_cnt = 0;
  std::uint16_t cid_num = 0;
  std::uint8_t extensions = 0;  // agreed
  bool fresh_keys = false;
  Uuid uuid{};  // server only
  // Client only.
  bool came_up = false;
  bool info_sent = false;
  bool challenged = false, answers = false;
  std::uint32_t flying = 0;
  Time latency = 0;
  // Server only.
  std::uint32_t address_pair = 0;
  Time handshake_deadline = kNever;
  KnownHeartbeat heartbeat;
  std::vector<Connection::Known> cons;  // indexed by cid
};

// A permit of a client that is in use.
struct KnownRequest {
  // unknown: it waits to be sent again.
  enum class Phase : std::uint8_t { unknown, queued, flying, held, abandoned } phase = Phase::unknown;
  std::uint16_t permit = 0;
  bool invalidated = false;
  bool service = false;
  bool reads = false;
  bool offers_invalidation = false;
  std::uint8_t generation = 0;
  std::uint16_t affinity = 0;
  std::uint32_t data_len = 0;
  std::uint32_t usr_len = 0;
  Key key;         // flying, held, abandoned
  Time since = 0;  // begin of the phase
};

// User of a chunk of a server.
struct KnownUse {
  Key key;
  std::uint32_t incarnation = 0;
  std::uint8_t generation = 0;
  bool reads = false;
  bool has_data = false;
  bool has_descriptor = false;
  bool need_invalidate = false;
};
struct KnownChunk {
  enum class Phase : std::uint8_t { invalidating, serving, answering } phase = Phase::serving;
  std::uint16_t chunk = 0;
  std::uint16_t serial = 0;
  std::uint16_t error = 0;
  bool from_park = false;
  KnownUse user;
  std::optional<KnownUse> parked;
};

struct KnownFence {
  Key asker;
  std::uint32_t serial = 0;
  Uuid uuid{};
  std::uint16_t target = 0xffff;  // path; 0xffff: none
};

struct KnownSession {
  bool client = false;
  Time now = 0;
  Settings settings;
  std::uint16_t session = 0;      // server: index of the session
  std::uint16_t queue_depth = 0;  // 0: never connected
  std::uint32_t max_io_size = 0;
  std::uint32_t max_hdr_size = 0;
  bool closing = false;
  bool ended = false;
  std::vector<KnownPath> paths;
  std::vector<KnownRequest> requests;  // client
  std::vector<KnownChunk> chunks;      // server
  std::vector<KnownFence> fences;      // server
};

}  // namespace rtrs::spec
