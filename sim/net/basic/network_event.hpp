// Records of everything that happens inside the simulated network: input of the law monitor, and of the hash
// that shows whether two runs are identical.
#pragma once
#include <cstdint>

#include "core/fabric/work.hpp"
#include "core/proto/ids.hpp"

namespace rtrs::sim {

using NodeId = std::uint32_t;
using LinkId = std::uint32_t;
using QpId = std::uint32_t;  // queue pair of a node; never reused in a run
inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// Directions of a link, seen from the side that connects.
enum class Way : std::uint8_t { to_server = 0, to_client = 1 };
constexpr Way opposite(Way way) {
  return way == Way::to_server ? Way::to_client : Way::to_server;
}

// How a work request ended.
enum class Ending : std::uint8_t {
  success,
  flushed,         // an earlier work request failed or the queue pair was closed
  retry_exceeded,  // no acknowledgement within the retry budget
  rnr_exceeded,    // the peer never posted a receive; impossible with infinite RNR retries
  remote_access,   // refused by the peer: invalid key, range or length
  local_error,     // local failure of the queue pair
};

struct NetworkEvent {
  // Each comment lists the members that are set.
  enum class Kind : std::uint8_t {
    qp_created,         // qp, node, link, way = its sending direction; value = retry budget in ns
    qp_paired,          // qp, peer: the two ends of one connection
    posted,             // qp, wr, op, length, imm, rkey, value = remote address, flag = signalled
    receives_posted,    // qp, length = number of receives
    placed,             // qp = responder, peer = requester, wr, rkey, value = address, length: bytes written
    executed,           // qp = responder, peer = requester, wr, op, imm, length, flag = consumed a receive;
                        // Local operation: qp = peer = poster.
    refused,            // qp = responder, peer = requester, wr: access refused
    completed,          // qp, wr, ending; on success only signalled ones are reported
    acknowledged,       // qp, wr: everything below wr has arrived (or was copied, on a weak network)
    receive_flushed,    // qp, length = number of unused receives
    reported,           // qp, op, imm, length, wr = serial of the arrival: poll() returned it
    key_granted,        // node, rkey, value = address, length
    key_revoked,        // node, rkey
    link_cut,           // link, way
    link_healed,        // link, way
    qp_broken,          // qp, ending: first failure; qp is unusable
    qp_disconnected,    // qp: the application called disconnect()
    qp_closed,          // qp: ConnectionClosed was reported
    request_sent,       // qp: first transmission of the connect request
    request_seen,       // qp of the client, node: poll() of `node` returned the connect request
    established,        // qp, peer: reported to the client
    connect_failed,     // qp: reported to the client
    node_crashed,       // node
    node_restarted,     // node
    overrun,            // qp: its completion queue is unusable
    connection_cut,     // qp: all its messages are dropped, whatever the state of its link
    connection_healed,  // qp
  };
  Kind kind = Kind::qp_created;
  Way way = Way::to_server;
  Ending ending = Ending::success;
  WorkRequest::Op op = WorkRequest::Op::write;
  bool flag = false;
  bool local = false;  // for posted, executed: operation on the memory of the poster
  QpId qp = kNone;
  QpId peer = kNone;
  NodeId node = kNone;
  LinkId link = kNone;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t wr = 0;  // serial of the work request on its queue pair, from 0
  std::uint64_t value = 0;
  std::uint64_t digest = 0;  // hash of the transferred bytes, if any
  Nanos time = 0;
};

}  // namespace rtrs::sim
