// Actions that the protocol state machines emit: one struct per action, named in the imperative. All are
// trivially copyable. The client session, the server session and the registry each have a variant of the
// actions that they can emit, so that the driver handles exactly those. The driver performs actions in order
// after each step. User code runs only while the action list is empty.
//
// Protocol section of each action's message, and the Linux 6.12 function that sends it (rtrs-clt.c,
// rtrs-srv.c, rtrs.c):
//   Connect                 protocol section 2.1: rtrs_rdma_route_resolved
//   Accept, Reject          protocol section 2.2: rtrs_rdma_do_accept, rtrs_rdma_do_reject
//   SendInfoReq             protocol section 2.3: rtrs_send_path_info
//   SendInfoRsp             protocol section 2.4: process_info_req
//   PostRequest             protocol section 5.3: rtrs_clt_write_req, rtrs_clt_read_req
//   PostResponse            protocol section 5.5: rdma_write_sg, send_io_resp_imm
//   PostImm                 protocol section 7: hb_work, rtrs_send_hb_ack
//   PostReceive             protocol section 1.2: rtrs_iu_post_recv, rtrs_post_recv_empty
//   InvalidateChunk         protocol section 5.5: rtrs_srv_inv_rkey
//   StoreKey                protocol section 2.5: rtrs_clt_rkey_rsp_done
//   Disconnect              protocol section 3.6: rtrs_clt_stop_and_destroy_conns, rtrs_srv_close_work
//   Complete                protocol section 5.6: complete_rdma_req
//   Deliver                 protocol section 5.7: process_read, process_write
//   FailedOver              protocol section 6.2: rtrs_clt_failover_req
//   LinkChanged             protocol section 6.4: rtrs_clt_path_up, rtrs_srv_path_up and their opposites
//   SendFenceReq, SendFenceRsp, ProbeDelivery  urtrs extensions, protocol section 12
#pragma once
#include <array>
#include <cstdint>
#include <new>
#include <type_traits>
#include <variant>

#include "core/base/assert.hpp"
#include "core/base/fixed_vector.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"
#include "core/proto/limits.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/extensions.hpp"

namespace rtrs {

// Cookie of a work request; 0: unsignalled. The cookie of a signalled work request is the number of send
// queue entries that its completion retires: the request itself and the unsignalled ones before it on the
// same connection.
constexpr std::uint64_t retiring(unsigned entries) {
  return entries;
}

// --- frequent actions ---

// Client: write data and headers of the request in `permit` into its chunk, with immediate `imm`.
struct PostRequest {
  ConKey key;
  std::uint32_t imm;
  std::uint16_t permit;
  std::uint8_t generation;  // goes into the header when the generation extension is negotiated, else 0
  bool offer_invalidation;  // READ: set NEED_INVAL and offer the key of this request
  std::uint64_t cookie;
  RTRS_FIELDS(key, imm, permit, generation, offer_invalidation, cookie)
};
// Server: respond to the request in `chunk`. Posts on the request's connection, in this order: the data
// (`write_data`), an invalidation of the client's key (`send_invalidate`), and the response with immediate
// `imm`. The response is a zero-length write or, with `fresh_key`, a SEND of RKEY_RSP with a new key. With
// `data_with_answer` the response is the write of the data, and the only work request. The cookie belongs to
// the last work request.
struct PostResponse {
  ConKey key;
  std::uint32_t imm;
  std::uint16_t chunk;
  bool write_data;
  bool send_invalidate;
  bool fresh_key;
  bool data_with_answer;  // set only with write_data and without send_invalidate or fresh_key
  std::uint64_t cookie;
  RTRS_FIELDS(key, imm, chunk, write_data, send_invalidate, fresh_key, data_with_answer, cookie)
};
// Zero-length write with immediate, for heartbeats.
struct PostImm {
  ConKey key;
  std::uint32_t imm;
  std::uint64_t cookie;
  RTRS_FIELDS(key, imm, cookie)
};
enum class ReceiveKind : std::uint8_t {
  empty,
  message,
  info
};  // size of the receive: 0 bytes, any small SEND, INFO_RSP
struct PostReceive {
  ConKey key;
  std::uint16_t count;
  ReceiveKind kind;
  RTRS_FIELDS(key, count, kind)
};
// Client: the request in `permit` is complete. The permit is free, and the memory of the request belongs to
// the application again.
struct Complete {
  std::uint16_t permit;
  Errc result;
  std::uint16_t peer_errno;
  RTRS_FIELDS(permit, result, peer_errno)
};
// Server: pass the request in `chunk` to the upper layer, which answers with Responded{chunk, serial}.
// `parked`: use the headers of the request that waited for the previous user of the chunk.
struct Deliver {
  ConKey key;
  std::uint16_t chunk;
  std::uint16_t serial;
  bool parked;
  RTRS_FIELDS(key, chunk, serial, parked)
};
// Client: the next request on this chunk over this path uses `rkey`.
struct StoreKey {
  std::uint16_t path;
  std::uint16_t buf_id;
  std::uint32_t rkey;
  RTRS_FIELDS(path, buf_id, rkey)
};
// Server: invalidate the chunk's rkey on this path; answered by ChunkInvalidated.
struct InvalidateChunk {
  ConKey key;
  std::uint16_t chunk;
  RTRS_FIELDS(key, chunk)
};

// --- control actions ---

// Client: open this connection with a CON_REQ. ConnectionClosed, its last event, requires a Disconnect.
struct Connect {
  ConKey key;
  std::uint16_t cid_num;
  std::uint16_t recon_cnt;
  wire::Extensions extensions;
  bool first_conn;
  RTRS_FIELDS(key, cid_num, recon_cnt, extensions, first_conn)
};
struct Accept {
  ConKey key;
  std::uint32_t request;
  std::uint32_t flags;  // flags of the CON_RSP
  RTRS_FIELDS(key, request, flags)
};
// `peer_errno` is positive. The connection key of the request is never used.
struct Reject {
  std::uint32_t request;
  Reason reason;
  std::uint16_t peer_errno;
  RTRS_FIELDS(request, reason, peer_errno)
};
struct Disconnect {
  ConKey key;
  Reason reason;
  RTRS_FIELDS(key, reason)
};
struct SendInfoReq {
  ConKey key;
  std::uint64_t cookie;
  RTRS_FIELDS(key, cookie)
};
// Server: offer the session's chunks on this path: register them and send INFO_RSP.
struct SendInfoRsp {
  ConKey key;
  std::uint64_t cookie;
  RTRS_FIELDS(key, cookie)
};
// Client: ask the server over `key` to close and drain every incarnation of `path` up to `recon_cnt`.
struct SendFenceReq {
  ConKey key;
  std::uint64_t cookie;
  std::uint32_t serial;
  std::uint16_t path;
  std::uint16_t recon_cnt;
  RTRS_FIELDS(key, cookie, serial, path, recon_cnt)
};
struct SendFenceRsp {
  ConKey key;
  std::uint64_t cookie;
  std::uint32_t serial;
  std::uint16_t peer_errno;
  wire::Uuid sess_uuid;
  RTRS_FIELDS(key, cookie, serial, peer_errno, sess_uuid)
};
// Zero-length write without immediate, always signalled. The write consumes no receive at the peer, changes
// no memory and needs no key (InfiniBand specification C9-88), so that every peer accepts it, including the
// kernel. The completion proves that the connection delivers (Capabilities::done_means_delivered).
struct ProbeDelivery {
  ConKey key;
  std::uint64_t cookie;
  RTRS_FIELDS(key, cookie)
};
enum class PathState : std::uint8_t {
  absent,      // the path does not exist
  connecting,  // connections are being opened, or INFO messages exchanged
  connected,
  draining,  // the path is lost and waits until no work request is outstanding
  waiting,   // client only: the path waits for its next attempt
  closing,   // like draining, but the path does not reconnect afterwards
  closed,    // client only: the path is listed but does not try to connect
};
const char* to_string(PathState) noexcept;
// State change of a path, for the log, statistics and the operator.
struct PathChanged {
  std::uint16_t path;
  PathState state;
  Reason reason;
  std::uint16_t peer_errno;
  std::uint32_t attempt;  // client only: number of attempts since the path was last connected
  Nanos delay;            // client only, in state waiting: time until the next attempt
  RTRS_FIELDS(path, state, reason, peer_errno, attempt, delay)
};
// Client: the number of connected paths changed from 0 to 1 (`up`) or from 1 to 0. Server: the same for one
// session.
struct LinkChanged {
  bool up;
  RTRS_FIELDS(up)
};
// Client: a request of the lost path `from` was resent over path `to`.
struct FailedOver {
  std::uint16_t permit;
  std::uint16_t from;
  std::uint16_t to;
  bool fenced;  // false: resent without proof that the old incarnation is closed (kernel peer, or the
                // configured fallback)
  RTRS_FIELDS(permit, from, to, fenced)
};
// The path is drained: the driver can free its registrations and tables.
struct ReleasePath {
  std::uint16_t path;
  RTRS_FIELDS(path)
};
// All paths are closed and drained; the session accepts no further input.
struct EndSession {
  Reason reason;
  RTRS_FIELDS(reason)
};
// Registry: the connect request belongs to session `session`. `create`: the session is new.
struct AdmitSession {
  std::uint32_t request;
  std::uint16_t session;
  bool create;
  RTRS_FIELDS(request, session, create)
};
// Registry: close a session that has not sent INFO_REQ yet, to make room for another.
struct CrowdOut {
  std::uint16_t session;
  RTRS_FIELDS(session)
};
// Registry: answer to NameClaimed, 0 or a positive errno.
struct AnswerName {
  std::uint16_t session;
  std::uint16_t refusal_errno;
  RTRS_FIELDS(session, refusal_errno)
};

using ClientControlAction = std::variant<Connect, Disconnect, SendInfoReq, SendFenceReq, PathChanged,
                                         LinkChanged, FailedOver, ReleasePath, EndSession, ProbeDelivery>;
using ServerControlAction = std::variant<Accept, Reject, Disconnect, SendInfoRsp, SendFenceRsp, PathChanged,
                                         LinkChanged, ReleasePath, EndSession, ProbeDelivery>;

// Actions of a client session and of a server session. The control actions are the last alternative.
using ClientAction = std::variant<PostRequest, PostImm, PostReceive, Complete, StoreKey, ClientControlAction>;
using ServerAction =
    std::variant<PostResponse, PostImm, PostReceive, Deliver, InvalidateChunk, ServerControlAction>;

// Actions of the registry. An input emits at most two: CrowdOut, then the answer.
using RegistryAction = std::variant<AdmitSession, Reject, AnswerName, CrowdOut>;
using RegistryActions = FixedVector<RegistryAction, 2>;

// Maximum number of alternatives for which g++ 12 compiles std::visit to a switch instead of a function
// table.
inline constexpr std::size_t kMaxAlternatives = 11;
static_assert(std::variant_size_v<ClientAction> <= kMaxAlternatives &&
              std::variant_size_v<ServerAction> <= kMaxAlternatives &&
              std::variant_size_v<ClientControlAction> <= kMaxAlternatives &&
              std::variant_size_v<ServerControlAction> <= kMaxAlternatives);

template <class Action>
using ControlOf = std::variant_alternative_t<std::variant_size_v<Action> - 1, Action>;

template <class T, class Variant>
inline constexpr bool kIsAlternative = false;
template <class T, class... Alternatives>
inline constexpr bool kIsAlternative<T, std::variant<Alternatives...>> = (std::is_same_v<T, Alternatives> ||
                                                                          ...);

template <class T>
inline constexpr bool kIsVariant = false;
template <class... Alternatives>
inline constexpr bool kIsVariant<std::variant<Alternatives...>> = true;

// Calls visit() with the struct that an action holds, whether the action is hot or a control action.
template <class Visit, class Action>
decltype(auto) visit_action(Visit&& visit, Action& action) {
  return std::visit(
      [&visit](auto& one) -> decltype(auto) {
        if constexpr (kIsVariant<std::remove_cvref_t<decltype(one)>>)
          return std::visit(visit, one);
        else
          return visit(one);
      },
      action);
}

// Returns a pointer to the action if it has type A, else null.
template <class A, class Action>
const A* action_if(const Action& action) noexcept {
  if constexpr (kIsAlternative<A, Action>) {
    return std::get_if<A>(&action);
  } else {
    static_assert(kIsAlternative<A, ControlOf<Action>>, "this machine does not ask for it");
    const auto* control = std::get_if<ControlOf<Action>>(&action);
    return control == nullptr ? nullptr : std::get_if<A>(control);
  }
}

// Action list of one step. The caller owns it and clears it between steps. Never grows.
template <class Action>
class ActionList {
  static_assert(std::is_trivially_copyable_v<Action> && std::is_trivially_destructible_v<Action>);

 public:
  ActionList() noexcept {}
  ActionList(const ActionList&) = delete;
  ActionList& operator=(const ActionList&) = delete;

  template <class A>
  void push(const A& action) noexcept {
    RTRS_ASSERT(size_ < kMaxActionsPerStep);
    if constexpr (std::is_same_v<A, Action> || kIsAlternative<A, Action>) {
      ::new (&storage_.items[size_++]) Action(action);
    } else {
      static_assert(kIsAlternative<A, ControlOf<Action>>, "this machine may not ask for it");
      ::new (&storage_.items[size_++]) Action(ControlOf<Action>(action));
    }
  }
  const Action* begin() const noexcept { return storage_.items; }
  const Action* end() const noexcept { return storage_.items + size_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { size_ = 0; }

 private:
  union Storage {
    Storage() noexcept {}
    Action items[kMaxActionsPerStep];
  } storage_;
  std::size_t size_ = 0;
};
using ClientActions = ActionList<ClientAction>;
using ServerActions = ActionList<ServerAction>;

}  // namespace rtrs
