// Everything that a protocol state machine can ask for, one struct an action, in the imperative. All are
// trivially copyable. Client sessions, server sessions and the registry each have a variant of what they ask
// for, so that who performs them has a case for each, and for no other. Actions are performed in order after
// the step; user code runs only when the list is empty.
//
// What they put on the wire, and the function of Linux 6.12 that does it (rtrs-clt.c, rtrs-srv.c, rtrs.c):
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
//   SendFenceReq, SendFenceRsp, ProbeDelivery  ours, protocol section 12
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

// Cookie of a work request: 0 is not signalled. A signalled one tells how many send queue entries its
// completion retires: itself and the unsignalled ones before it on the same connection.
constexpr std::uint64_t retiring(unsigned entries) {
  return entries;
}

// --- hot actions ---

// Client: write data and headers of the request in `permit` into its chunk, with immediate `imm`.
struct PostRequest {
  ConKey key;
  std::uint32_t imm;
  std::uint16_t permit;
  std::uint8_t generation;  // goes into the header when the generation extension is negotiated, else 0
  bool offer_invalidation;  // READ: set NEED_INVAL and offer a key of its own
  std::uint64_t cookie;
  RTRS_FIELDS(key, imm, permit, generation, offer_invalidation, cookie)
};
// Server: answer the request in `chunk`. Posts, in this order on the request's connection: the data
// (write_data), an invalidation of the client's key (send_invalidate), the response with immediate `imm`: a
// zero-length write, or with fresh_key a SEND of RKEY_RSP with a renewed key. With data_with_answer the
// response is the write of the data, and the only work request. The cookie belongs to the last work request.
struct PostResponse {
  ConKey key;
  std::uint32_t imm;
  std::uint16_t chunk;
  bool write_data;
  bool send_invalidate;
  bool fresh_key;
  bool data_with_answer;  // only with write_data, and with nothing else between the two
  std::uint64_t cookie;
  RTRS_FIELDS(key, imm, chunk, write_data, send_invalidate, fresh_key, data_with_answer, cookie)
};
// A zero-length write with immediate: heartbeats.
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
};  // bytes a receive must hold: 0, any small SEND, INFO_RSP
struct PostReceive {
  ConKey key;
  std::uint16_t count;
  ReceiveKind kind;
  RTRS_FIELDS(key, count, kind)
};
// Client: the request in `permit` is over; its permit is free again and its memory belongs to the
// application.
struct Complete {
  std::uint16_t permit;
  Errc result;
  std::uint16_t peer_errno;
  RTRS_FIELDS(permit, result, peer_errno)
};
// Server: hand the request in `chunk` to the upper layer, which answers with Responded{chunk, serial}.
// `parked`: its headers are those of the request that waited behind the chunk's former user.
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
// Server: make the chunk's remote key on this path dead; answered by ChunkInvalidated.
struct InvalidateChunk {
  ConKey key;
  std::uint16_t chunk;
  RTRS_FIELDS(key, chunk)
};

// --- control actions ---

// Client: open this connection with a CON_REQ. Ends with exactly one ConnectionClosed, after Disconnect.
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
  std::uint32_t flags;  // of CON_RSP
  RTRS_FIELDS(key, request, flags)
};
// `peer_errno` is positive. The key of the request is not used.
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
// Client: ask over `key` to close and drain every incarnation of `path` up to recon_cnt.
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
// A zero-length write without immediate, always signalled. It takes no receive of the peer, changes nothing
// there and needs no key (InfiniBand specification C9-88), so that every peer takes it, the kernel's too. Its
// completion proves that the connection delivers (Capabilities::done_means_delivered).
struct ProbeDelivery {
  ConKey key;
  std::uint64_t cookie;
  RTRS_FIELDS(key, cookie)
};
enum class PathState : std::uint8_t {
  absent,      // no such path
  connecting,  // connections and INFO exchange under way
  connected,
  draining,  // lost: waiting until no work request of it is outstanding
  waiting,   // client: until the next attempt
  closing,   // for good: draining
  closed,    // client: listed, but not trying to connect
};
const char* to_string(PathState) noexcept;
// News for the log, statistics and the operator.
struct PathChanged {
  std::uint16_t path;
  PathState state;
  Reason reason;
  std::uint16_t peer_errno;
  std::uint32_t attempt;  // client: attempts since the path was last connected
  Nanos delay;            // client, state waiting: until the next attempt
  RTRS_FIELDS(path, state, reason, peer_errno, attempt, delay)
};
// Client: the number of connected paths went 0 -> 1 (up) or 1 -> 0. Server: the same of a session.
struct LinkChanged {
  bool up;
  RTRS_FIELDS(up)
};
// Client: a request of lost path `from` was sent again over path `to`.
struct FailedOver {
  std::uint16_t permit;
  std::uint16_t from;
  std::uint16_t to;
  bool fenced;  // false: without proof that the old incarnation is dead (kernel peers, or the configured
                // fallback)
  RTRS_FIELDS(permit, from, to, fenced)
};
// The path is drained: its registrations and tables can go.
struct ReleasePath {
  std::uint16_t path;
  RTRS_FIELDS(path)
};
// Everything is closed and drained; the machine takes no further input.
struct EndSession {
  Reason reason;
  RTRS_FIELDS(reason)
};
// Registry: the connect request belongs to session `session`; `create`: which is new.
struct AdmitSession {
  std::uint32_t request;
  std::uint16_t session;
  bool create;
  RTRS_FIELDS(request, session, create)
};
// Registry: close a session that sent no INFO_REQ yet, to make room.
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

// What a client session asks for, and a server session. The control actions are the last alternative.
using ClientAction = std::variant<PostRequest, PostImm, PostReceive, Complete, StoreKey, ClientControlAction>;
using ServerAction =
    std::variant<PostResponse, PostImm, PostReceive, Deliver, InvalidateChunk, ServerControlAction>;

// Of the registry: one may give way before the answer.
using RegistryAction = std::variant<AdmitSession, Reject, AnswerName, CrowdOut>;
using RegistryActions = FixedVector<RegistryAction, 2>;

// std::visit is a switch up to so many alternatives, and a table of functions beyond (g++ 12).
inline constexpr std::size_t kMostAlternatives = 11;
static_assert(std::variant_size_v<ClientAction> <= kMostAlternatives &&
              std::variant_size_v<ServerAction> <= kMostAlternatives &&
              std::variant_size_v<ClientControlAction> <= kMostAlternatives &&
              std::variant_size_v<ServerControlAction> <= kMostAlternatives);

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

// Calls visit() with the struct that an action holds, whether it is hot or a control action.
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

// The action where it is an A, else null.
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

// Owned by the caller of a step, which clears it between steps. Never grows.
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
