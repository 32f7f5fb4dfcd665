// Interface for driving the in-memory adapters step by step in virtual time: the conductor decides when each
// work request and each message is carried out. Without a conductor everything happens at once.
//
// Hosts: each adapter belongs to one host, and a program on a host sees only the adapters of that host.
// on_host() sets the host of all later calls. Everything must run on one thread.
#pragma once
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::mock_hca {

// Connection manager message from one end of a connection to the other.
struct Message {
  enum class Kind : std::uint8_t { none, request, reply, ready, reject, disconnect, disconnected };
  Kind kind = Kind::none;
  std::uint32_t from = 0, to = 0;        // identifiers; 0: the listener
  std::size_t sender = 0, receiver = 0;  // numbers of the two adapters
  sockaddr_storage source{}, destination{};
  int reason = 0;  // reason code of a reject
  std::uint32_t queue_pair = 0;
  std::uint8_t retry_count = 0, ack_timeout = 0, tos = 0;
  std::vector<std::byte> data;
};

// The adapters call these functions. A conductor must not call back from them: it records the call and acts
// later.
class Conductor {
 public:
  virtual ~Conductor() = default;
  virtual std::uint64_t time() const = 0;
  // Returns true if the current allocation of a resource shall fail.
  virtual bool allocation_fails() = 0;
  // Called when `waiting` work requests of the queue pair can be carried out.
  virtual void work_waits(std::uint32_t queue_pair, std::size_t waiting) = 0;
  // Called when the queue pair is destroyed. Returns how many of its pending work requests are already in
  // flight and still arrive.
  virtual unsigned still_arrives(std::uint32_t queue_pair, unsigned waiting) = 0;
  virtual void sent(const Message&) = 0;
  // Returns 0, or the errno with which address resolution fails.
  virtual int resolve() = 0;
  virtual void made(std::uint32_t identifier) = 0;
  // Called when the program has associated the identifier with the queue pair.
  virtual void joined(std::uint32_t identifier, std::uint32_t queue_pair) = 0;
};
// Sets the conductor; nullptr for none. No object of an earlier run may exist.
void conduct(Conductor*);

std::size_t add_adapter(const Profile&, unsigned host);
void on_host(unsigned host);
std::string address_of(std::size_t adapter);
// Returns the identifier of the n-th connect request that the host received, counted from 1; 0 if there is
// none.
std::uint32_t identifier_of_request(unsigned host, std::uint32_t request);

enum class Carried : std::uint8_t {
  nothing,
  done,
  no_peer,  // the other end does not exist, or does not exist yet
  no_receive,
  refused,  // the other end rejected the work; later work waits until this end is notified
};
Carried carry_out(std::uint32_t queue_pair);
// Delivers the acknowledgement of a completed work request.
void acknowledge(std::uint32_t queue_pair);
// Fails the queue pair as if its retries to the other end were exhausted.
void give_up(std::uint32_t queue_pair);
void break_queue_pair(std::uint32_t queue_pair, bool with_event);
struct Outstanding {
  std::size_t waiting = 0, unheard = 0;
  bool alive = false;
};
Outstanding outstanding(std::uint32_t queue_pair);

void deliver(const Message&);
// True if the last message of the identifier was of this kind and has not been answered.
bool waits_for_answer(std::uint32_t identifier, Message::Kind);
void resend_last(std::uint32_t identifier);
// Makes the identifier's wait for an answer time out.
void unanswered(std::uint32_t identifier);

// Returns the identifier of the other end if this end knows it; otherwise 0.
std::uint32_t peer_of(std::uint32_t identifier);

// True if one of the host's file descriptors is readable.
bool readable(unsigned host);
std::size_t objects(unsigned host);
// Kills the host's processes. With `orderly` the kernel first disconnects all peers. Afterwards no
// message of the host reaches a peer.
void kill_host(unsigned host, bool orderly);
void revive_host(unsigned host);
bool has_problems();
// True if a peer may write with this adapter rkey.
bool is_open(std::size_t adapter, std::uint32_t key);

}  // namespace rtrs::mock_hca
