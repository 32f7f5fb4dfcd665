// Who leads adapters in memory step by step, in a time of his own: what a program asks of them happens when
// he says so, work request by work request and message by message. Without one everything happens at once.
//
// Hosts: an adapter belongs to one, and a program on a host sees its own adapters alone. on_host() says which
// host the calls come from, from then on. All of it on one thread.
#pragma once
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/mock_hca/mock_hca.hpp"

namespace rtrs::mock_hca {

// Of one end of a connection to the other, of the connection manager.
struct Message {
  enum class Kind : std::uint8_t { none, request, reply, ready, reject, disconnect, disconnected };
  Kind kind = Kind::none;
  std::uint32_t from = 0, to = 0;        // identifiers; 0: whoever listens
  std::size_t sender = 0, receiver = 0;  // adapters
  sockaddr_storage source{}, destination{};
  int reason = 0;  // of a reject
  std::uint32_t queue_pair = 0;
  std::uint8_t retry_count = 0, ack_timeout = 0, tos = 0;
  std::vector<std::byte> data;
};

// No function of his may call what is declared below: he takes a note and goes on later.
class Conductor {
 public:
  virtual ~Conductor() = default;
  virtual std::uint64_t time() const = 0;
  // Whether what is asked for cannot be had.
  virtual bool falls_short() = 0;
  // So much is there to carry out on this queue pair.
  virtual void work_waits(std::uint32_t queue_pair, std::size_t waiting) = 0;
  // The queue pair ends. Of what is not carried out, how much is on its way and arrives all the same.
  virtual unsigned still_arrives(std::uint32_t queue_pair, unsigned waiting) = 0;
  virtual void sent(const Message&) = 0;
  // 0, or the errno with which the address cannot be found.
  virtual int resolve() = 0;
  virtual void made(std::uint32_t identifier) = 0;
  // The program knows that they belong together.
  virtual void joined(std::uint32_t identifier, std::uint32_t queue_pair) = 0;
};
// nullptr: nobody. Nothing of before may be left.
void conduct(Conductor*);

std::size_t add_adapter(const Profile&, unsigned host);
void on_host(unsigned host);
std::string address_of(std::size_t adapter);
// The identifier of a request that the host was shown as its n-th, from 1; 0: there is none.
std::uint32_t identifier_of_request(unsigned host, std::uint32_t request);

enum class Carried : std::uint8_t {
  nothing,
  done,
  nobody_there,  // at the other end, or not yet
  no_receive,
  refused,  // by the other end; what follows waits for the word of it
};
Carried carry_out(std::uint32_t queue_pair);
// The word of what was carried out comes back.
void acknowledge(std::uint32_t queue_pair);
// The other end was asked for too long.
void give_up(std::uint32_t queue_pair);
void break_queue_pair(std::uint32_t queue_pair, bool with_event);
struct Outstanding {
  std::size_t waiting = 0, unheard = 0;
  bool alive = false;
};
Outstanding outstanding(std::uint32_t queue_pair);

void deliver(const Message&);
// The identifier waits for the answer to what it said last, of this kind.
bool waits_for_answer(std::uint32_t identifier, Message::Kind);
void say_again(std::uint32_t identifier);
// It has waited too long.
void unanswered(std::uint32_t identifier);

// The identifier of the other end, as far as this one knows it; 0: it does not.
std::uint32_t peer_of(std::uint32_t identifier);

// A descriptor of the host can be read.
bool readable(unsigned host);
std::size_t objects(unsigned host);
// Its processes die. With `orderly` the kernel parts from everybody; then nothing of it reaches anybody.
void sever(unsigned host, bool orderly);
void join_again(unsigned host);
bool has_problems();
// A peer may write to the memory behind this key of the adapter.
bool is_open(std::size_t adapter, std::uint32_t key);

}  // namespace rtrs::mock_hca
