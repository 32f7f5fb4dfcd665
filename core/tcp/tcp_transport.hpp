// What the TCP fabric asks of a system: streams of octets, readiness, a clock and memory. backends/tcp has it
// of the operating system, sim/pipes of a simulated network.
//
// One thread. No call waits, but listen() for the address of a host name, and none calls back. Errors are
// errno values; 0 is none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/fabric/fabric.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::tcp {

struct TcpStats;

// A stream, or a listener. Numbers may come again once they are closed.
using SocketId = int;
inline constexpr SocketId kNoSocket = -1;

// Among errno values: an address that does not exist, a source that is no address of this host, a host name
// whose address cannot be had now, and a peer that its guard does not accept, or this end that the peer's
// does not.
inline constexpr int kUnresolved = -1;
inline constexpr int kNotOurs = -2;
inline constexpr int kNamesSilent = -3;
inline constexpr int kRefused = -4;

// What receive() may need behind an empty place, of a stream that is sealed.
inline constexpr std::size_t kSealedRoom = std::size_t{64} << 10;

// What a socket is watched for, and what it is named with.
enum Readiness : std::uint32_t {
  kReadable = 1,  // octets, the end of the stream, an error, or a client
  kWritable = 2,
  kBroken = 4,  // not asked for: an error, or both directions are over
  kFound = 8,   // not asked for, once, of connect(): the addresses of the host name are known
};

struct Watched;

class Transport {
 public:
  virtual ~Transport() = default;

  // --- clock and memory ---
  virtual Nanos now() const noexcept = 0;
  // Zeroed, for the payload of peers; empty when there is none.
  virtual std::span<std::byte> map(std::size_t bytes) noexcept = 0;
  virtual void unmap(std::span<std::byte>) noexcept = 0;

  // --- streams ---
  struct Opened {
    SocketId socket = kNoSocket;
    int error = 0;
    std::string name;  // of what was asked for, or of the listener as it is
    std::uint16_t port = 0;
    std::string why;  // of kRefused, and of others that the errno does not tell
  };
  // `undelivered_ms`: after this time without an acknowledgement the stream breaks; 0: the system's own.
  virtual Opened listen(const PathAddress&, unsigned undelivered_ms) = 0;
  // Starts to connect, after the lookup if the destination is a host name; see ConnectionParams::address. The
  // socket becomes writable when the attempt has ended; outcome() then returns its result.
  virtual Opened connect(ConKey, const PathAddress&, unsigned address, unsigned undelivered_ms) = 0;
  virtual int outcome(SocketId) noexcept = 0;

  struct Client {
    SocketId socket = kNoSocket;
    int error = 0;            // EAGAIN: nobody waits
    std::string name;         // its address
    std::uint32_t host = 0;   // digest of the host that it counts as
    bool last_place = false;  // what descriptors are left is for other things of the process
  };
  virtual Client accept(SocketId listener) = 0;
  // Takes the oldest client and closes it, where accept() has no descriptor for it.
  virtual Client turn_away(SocketId listener) = 0;
  // Descriptors that the process may have.
  virtual std::size_t descriptors() const noexcept = 0;

  struct Ends {
    bool known = false;
    std::string own, peer;           // addresses
    std::uint32_t address_pair = 0;  // digest of the peer's and the own host, in this order
  };
  virtual Ends ends(SocketId) const = 0;

  struct Moved {
    std::size_t bytes = 0;
    int error = 0;      // EAGAIN: not now; none and no octets: the peer's stream has ended
    bool more = false;  // of receive(): there may be more, though this did not fill the room
  };
  // Fills `place`, which may be empty, then `behind`.
  virtual Moved receive(SocketId, iwarp::MutableBytes place, iwarp::MutableBytes behind) noexcept = 0;
  // Takes from the pieces in their order, from octet `skip` of the first one on.
  virtual Moved send(SocketId, std::span<const iwarp::Bytes> pieces, std::size_t skip) noexcept = 0;
  // Nothing more will be sent. False: the stream is broken.
  virtual bool shut_down(SocketId) noexcept = 0;
  virtual void close(SocketId) noexcept = 0;

  // How the peer acknowledges what was sent.
  struct Delivery {
    bool known = false;
    bool pending = false;            // bytes that were sent are not acknowledged
    unsigned attempts = 0;           // retransmissions of the oldest bytes after a timeout, all in vain
    std::uint64_t packets = 0;       // with data, retransmissions included
    Nanos quiet = 0;                 // since the last of these
    std::uint32_t packet_bytes = 0;  // of the largest packets
    std::uint64_t acknowledged = 0;  // bytes, since the stream began
  };
  virtual Delivery delivery(SocketId) const noexcept { return {}; }

  // --- a guard over a stream, which seals what is said and says who the peer is; without it these answers
  // ---
  struct Guard {
    bool sealed = false;      // receive() takes no `place`, and kSealedRoom behind it
    bool settled = true;      // false: receive() goes on with a handshake, and gives no octets before its end
    bool has_output = false;  // octets of its own wait until the stream is writable
    std::size_t memory = 0;   // that it takes at most
  };
  virtual Guard guard(SocketId) const noexcept { return {}; }
  // connect() makes streams that are sealed.
  virtual bool seals() const noexcept { return false; }
  struct Recognised {
    int error = 0;    // EAGAIN: not now; kRefused: it must not come so; else the stream is broken
    std::string why;  // of kRefused
  };
  // Finds out by its first octet whether an accepted client comes with a guard. Once, before receive().
  virtual Recognised recognise(SocketId) { return {}; }
  // Who a client is, once it is settled; all zero and empty: nobody asked.
  struct Peer {
    PeerIdentity identity{};
    std::string name;
  };
  virtual Peer peer(SocketId) const { return {}; }
  // How it is sealed, for the log.
  virtual std::string describe_guard(SocketId) const { return {}; }
  // Why receive() or send() said kRefused.
  virtual std::string refusal(SocketId) const { return {}; }
  // Tells the peer, where the guard has a word for it, that the stream ends here on purpose.
  virtual void say_goodbye(SocketId) noexcept {}
  // Adds what it counted of guards.
  virtual void count(TcpStats&) const noexcept {}

  // --- readiness, by level: what is not taken is named again ---
  struct Ready {
    Watched* one = nullptr;  // nullptr: the timer
    std::uint32_t events = 0;
    std::uint16_t addresses = 0;  // with kFound: the choice, 1 where there is none
    std::string name{};           // with kFound: the address that it goes to
  };
  // What it is watched for from now on; kBroken always is. False: no memory.
  virtual bool watch(SocketId, std::uint32_t interest, Watched&) noexcept = 0;
  virtual void forget(SocketId) noexcept = 0;
  // What is ready now. Valid until the next call.
  virtual std::span<const Ready> look() noexcept = 0;
  // The timer is named once at `when`, or at the time set last.
  virtual void arm(Nanos when) noexcept = 0;
  // Makes wait_fd() readable until the next look().
  virtual void signal() noexcept = 0;
  virtual int wait_fd() const noexcept = 0;
};

// A socket that closes itself.
class Socket {
 public:
  Socket() = default;
  Socket(Transport& transport, SocketId id) noexcept : transport_(&transport), id_(id) {}
  Socket(Socket&& other) noexcept : transport_(other.transport_), id_(std::exchange(other.id_, kNoSocket)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this == &other) return *this;
    reset();
    transport_ = other.transport_;
    id_ = std::exchange(other.id_, kNoSocket);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { reset(); }

  [[nodiscard]] SocketId get() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ != kNoSocket; }
  void reset() noexcept {
    if (id_ != kNoSocket) transport_->close(std::exchange(id_, kNoSocket));
  }

 private:
  Transport* transport_ = nullptr;
  SocketId id_ = kNoSocket;
};

}  // namespace rtrs::tcp
