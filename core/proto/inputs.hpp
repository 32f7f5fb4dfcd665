// Inputs of the protocol state machines: one struct per input, named in the past tense. All are trivially
// copyable and at most 64 bytes. `now` never decreases between two inputs of one machine; inputs with equal
// `now` may arrive in any order. `core/wire` parses the peer's bytes; bytes that do not parse arrive as
// PeerBroke.
//
// Protocol section of each input's event, and the Linux 6.12 function that handles it (rtrs-clt.c,
// rtrs-srv.c):
//   Connected, ConnectFailed  protocol section 2.2: rtrs_rdma_conn_established, rtrs_rdma_conn_rejected
//   InfoAccepted              protocol section 2.4: process_info_rsp
//   KeyedResponseReceived     protocol section 2.5: rtrs_clt_rkey_rsp_done
//   ImmReceived               protocol section 2.8: rtrs_clt_rdma_done, rtrs_srv_rdma_done
//   KeyInvalidated            protocol section 5.6: rtrs_clt_rdma_done
//   ConnectionLost            protocol section 3.6: rtrs_clt_rdma_cm_handler, rtrs_srv_rdma_cm_handler
//   Submitted                 protocol section 5.2: rtrs_clt_request
//   ConnectRequested          protocol sections 2.1 and 3.2: rtrs_rdma_connect
//   InfoRequested             protocol section 2.3: process_info_req
//   RequestArrived            protocol sections 2.6, 2.7 and 5.3: process_io_req, process_read, process_write
//   ChunkInvalidated          protocol section 5.5: rtrs_srv_inv_rkey_done
//   Responded                 protocol section 5.7: rtrs_srv_resp_rdma
//   SessionSought             protocol sections 3.3 and 3.4: get_or_create_srv
//   NameClaimed               protocol section 2.3: exist_pathname
//   FenceRequested, FenceAnswered  urtrs extensions, protocol section 12
#pragma once
#include <cstdint>
#include <variant>

#include "core/base/reflect.hpp"
#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"
#include "core/proto/multipath_policy.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/extensions.hpp"
#include "core/wire/refusal.hpp"

namespace rtrs {

// --- both sides ---

// First sign that a connection is lost. The state machine answers with Disconnect.
struct ConnectionLost {
  Nanos now;
  ConKey key;
  Reason reason;
  RTRS_FIELDS(now, key, reason)
};
// Last event of a key; exactly one, and only after Disconnect. Every work request of the key has completed or
// been flushed, and the fabric uses none of its buffers.
struct ConnectionClosed {
  Nanos now;
  ConKey key;
  RTRS_FIELDS(now, key)
};
// An immediate that carries no message: a response or heartbeat (client), a heartbeat (server).
struct ImmReceived {
  Nanos now;
  ConKey key;
  std::uint32_t imm;
  RTRS_FIELDS(now, key, imm)
};
// A signalled work request completed. `cookie`: as in the action that posted the work request.
struct SendDone {
  Nanos now;
  ConKey key;
  std::uint64_t cookie;
  RTRS_FIELDS(now, key, cookie)
};
// The peer sent something that does not parse or is forbidden.
struct PeerBroke {
  Nanos now;
  ConKey key;
  wire::Refusal why;
  RTRS_FIELDS(now, key, why)
};
// next_deadline() passed. May be late; if it is early, it has no effect.
struct DeadlineReached {
  Nanos now;
  RTRS_FIELDS(now)
};
// Continues a batch: feed while wants_to_continue() is true.
struct Continued {
  Nanos now;
  RTRS_FIELDS(now)
};
struct CloseRequested {
  Nanos now;
  RTRS_FIELDS(now)
};
// An operator disconnects a path. On a client, the path stays in the list and can be reconnected.
struct PathDisconnectRequested {
  Nanos now;
  std::uint16_t path;
  RTRS_FIELDS(now, path)
};

// --- client session ---

// Path `path` is added and starts to connect.
struct PathAdded {
  Nanos now;
  std::uint16_t path;
  RTRS_FIELDS(now, path)
};
struct PathRemoveRequested {
  Nanos now;
  std::uint16_t path;
  RTRS_FIELDS(now, path)
};
struct PathReconnectRequested {
  Nanos now;
  std::uint16_t path;
  RTRS_FIELDS(now, path)
};
struct PolicyChanged {
  Nanos now;
  MultipathPolicy policy;
  RTRS_FIELDS(now, policy)
};
// New limit of reconnect attempts; takes effect at the next failed attempt.
struct AttemptsChanged {
  Nanos now;
  std::int32_t max_reconnect_attempts;  // see ClientConfig::max_reconnect_attempts
  RTRS_FIELDS(now, max_reconnect_attempts)
};
// The path's host name has `count` addresses, at least 2. Arrives during the first connection of an attempt;
// the address in use is ClientPath::address().
struct AddressesFound {
  Nanos now;
  ConKey key;
  std::uint16_t count;
  RTRS_FIELDS(now, key, count)
};
// The peer accepted the connect request. The values come from a CON_RSP that parsed.
struct Connected {
  Nanos now;
  ConKey key;
  std::uint32_t max_io_size;
  std::uint32_t max_hdr_size;
  std::uint32_t flags;
  std::uint16_t queue_depth;
  RTRS_FIELDS(now, key, max_io_size, max_hdr_size, flags, queue_depth)
};
// The connection attempt failed. `peer_errno`: positive errno from the peer, or 0. The key still needs
// Disconnect.
struct ConnectFailed {
  Nanos now;
  ConKey key;
  Reason reason;
  std::uint16_t peer_errno;
  RTRS_FIELDS(now, key, reason, peer_errno)
};
// A valid INFO_RSP arrived, and the driver has stored the chunk table of this path.
struct InfoAccepted {
  Nanos now;
  ConKey key;
  RTRS_FIELDS(now, key)
};
// A response that carries a fresh key for its chunk (RKEY_RSP with its immediate).
struct KeyedResponseReceived {
  Nanos now;
  ConKey key;
  std::uint32_t imm;
  std::uint32_t rkey;
  std::uint16_t buf_id;
  RTRS_FIELDS(now, key, imm, rkey, buf_id)
};
// The peer invalidated a key of this side (SEND_WITH_INV). `permit`: permit of the request that offered that
// key; kNoPermit if none did.
struct KeyInvalidated {
  Nanos now;
  ConKey key;
  std::uint16_t permit;
  RTRS_FIELDS(now, key, permit)
};
inline constexpr std::uint16_t kNoPermit = 0xffff;
struct FenceAnswered {
  Nanos now;
  ConKey key;
  std::uint32_t serial;
  std::uint16_t peer_errno;
  RTRS_FIELDS(now, key, serial, peer_errno)
};
// An application request. `permit` is the session's next_permit() at this moment; its headers and
// scatter list are already with the driver.
struct Submitted {
  Nanos now;
  std::uint16_t permit;
  Direction direction;
  bool service;              // an administrative message: goes over cid 0
  bool offers_invalidation;  // the request is a READ whose key the server may invalidate
  std::uint16_t affinity;  // selects the connection; requests with the same affinity stay in order on a path
  std::uint32_t data_len;
  std::uint32_t usr_len;
  RTRS_FIELDS(now, permit, direction, service, offers_invalidation, affinity, data_len, usr_len)
};

using ClientInput =
    std::variant<PathAdded, PathRemoveRequested, PathDisconnectRequested, PathReconnectRequested,
                 PolicyChanged, AttemptsChanged, CloseRequested, Connected, ConnectFailed, ConnectionLost,
                 ConnectionClosed, InfoAccepted, ImmReceived, KeyedResponseReceived, KeyInvalidated,
                 FenceAnswered, SendDone, PeerBroke, Submitted, DeadlineReached, Continued, AddressesFound>;

// --- server session ---

// A connect request whose CON_REQ parsed. `key` is new; key.path is the session's path with this `sess_uuid`,
// or else the session's first free path.
struct ConnectRequested {
  Nanos now;
  ConKey key;
  std::uint32_t request;       // the fabric's handle, for Accept or Reject
  std::uint32_t address_pair;  // digest of (client address, server address), without ports
  wire::Uuid sess_uuid;        // uuid of the path
  std::uint16_t cid_num;
  std::uint16_t recon_cnt;
  wire::Extensions extensions;
  bool first_conn;
  RTRS_FIELDS(now, key, request, address_pair, sess_uuid, cid_num, recon_cnt, extensions, first_conn)
};
// A valid INFO_REQ arrived. `refusal_errno` is 0 if the registry grants the name and the upper layer accepts
// the session.
struct InfoRequested {
  Nanos now;
  ConKey key;
  std::uint16_t refusal_errno;
  RTRS_FIELDS(now, key, refusal_errno)
};
// A valid IO_REQ arrived, and the driver has copied its headers out of the chunk.
struct RequestArrived {
  Nanos now;
  ConKey key;
  std::uint32_t data_len;
  std::uint32_t usr_len;
  std::uint16_t chunk;
  std::uint8_t generation;
  Direction direction;
  bool need_invalidate;
  bool has_descriptor;
  RTRS_FIELDS(now, key, data_len, usr_len, chunk, generation, direction, need_invalidate, has_descriptor)
};
// The rkey of a chunk is invalid now or, if `ok` is false, could not be invalidated.
struct ChunkInvalidated {
  Nanos now;
  ConKey key;
  std::uint16_t chunk;
  bool ok;
  RTRS_FIELDS(now, key, chunk, ok)
};
struct FenceRequested {
  Nanos now;
  ConKey key;
  std::uint32_t serial;
  std::uint16_t recon_cnt;
  wire::Uuid sess_uuid;
  RTRS_FIELDS(now, key, serial, recon_cnt, sess_uuid)
};
// The upper layer responds to a delivered request, exactly once for each Deliver. `peer_errno`: 0 or
// positive.
struct Responded {
  Nanos now;
  std::uint16_t chunk;
  std::uint16_t serial;
  std::uint16_t peer_errno;
  RTRS_FIELDS(now, chunk, serial, peer_errno)
};

using ServerInput =
    std::variant<ConnectRequested, ConnectionLost, ConnectionClosed, InfoRequested, RequestArrived,
                 ChunkInvalidated, FenceRequested, Responded, ImmReceived, SendDone, PeerBroke,
                 PathDisconnectRequested, CloseRequested, DeadlineReached, Continued>;

// --- server registry: which session a connect request belongs to, who owns a name ---

struct SessionSought {
  Nanos now;
  std::uint32_t request;
  wire::Uuid paths_uuid;  // uuid of the session
  bool first_conn;
  std::uint32_t host = 0;  // digest of the client's address; 0: not known, not limited by address
  PeerIdentity identity{};
  RTRS_FIELDS(now, request, paths_uuid, first_conn, host, identity)
};
struct NameClaimed {
  Nanos now;
  std::uint16_t session;
  std::uint64_t digest_low;  // 128-bit digest of the session name
  std::uint64_t digest_high;
  RTRS_FIELDS(now, session, digest_low, digest_high)
};
struct SessionDropped {
  Nanos now;
  std::uint16_t session;
  RTRS_FIELDS(now, session)
};
using RegistryInput = std::variant<SessionSought, NameClaimed, SessionDropped>;

}  // namespace rtrs
