// System services that the TCP fabric needs: byte streams, readiness, a clock and memory. backends/tcp
// implements them with the operating system, sim/net/streams with a simulated network.
//
// Single-threaded. No call blocks except listen() while it resolves a host name, and no call invokes
// callbacks. Errors are errno values; 0 means success.
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

// A stream or a listener. Numbers of closed sockets may be reused.
using SocketId = int;
inline constexpr SocketId kNoSocket = -1;

// Error numbers in addition to errno values. kUnresolved: the address does not exist. kNotOurs: the source is
// not an address of this host. kNoNameServiceAnswer: the host name cannot be resolved now. kRefused: a guard
// rejected the peer, or the peer's guard rejected this side.
inline constexpr int kUnresolved = -1;
inline constexpr int kNotOurs = -2;
inline constexpr int kNoNameServiceAnswer = -3;
inline constexpr int kRefused = -4;

// Size that `behind` needs in a call of receive() with an empty `place`, if the stream is encrypted.
inline constexpr std::size_t kSealedRoom = std::size_t{64} << 10;

// Events to watch a socket for, and events that are reported.
enum Readiness : std::uint32_t {
  kReadable = 1,  // data, end of stream, an error, or a client to accept
  kWritable = 2,
  kBroken = 4,  // always reported: an error, or both directions closed
  kFound = 8,   // always reported, once per connect(): the addresses of the host name are resolved
};

struct Watched;

class Transport {
 public:
  virtual ~Transport() = default;

  // --- clock and memory ---
  virtual Nanos now() const noexcept = 0;
  // Returns zeroed memory for the payload of peers; empty on failure.
  virtual std::span<std::byte> map(std::size_t bytes) noexcept = 0;
  virtual void unmap(std::span<std::byte>) noexcept = 0;

  // --- streams ---
  struct Opened {
    SocketId socket = kNoSocket;
    int error = 0;
    std::string name;  // destination name, or the listener's actual address
    std::uint16_t port = 0;
    std::string why;  // details of kRefused and of errors that errno does not describe
  };
  // `undelivered_ms`: the stream fails after this time without an acknowledgement; 0: the system's default.
  virtual Opened listen(const PathAddress&, unsigned undelivered_ms) = 0;
  // Starts to connect, after the lookup if the destination is a host name; see ConnectionParams::address. The
  // socket becomes writable when the attempt has ended; outcome() then returns its result.
  virtual Opened connect(ConKey, const PathAddress&, unsigned address, unsigned undelivered_ms) = 0;
  virtual int outcome(SocketId) noexcept = 0;

  struct Client {
    SocketId socket = kNoSocket;
    int error = 0;            // EAGAIN: no client is waiting
    std::string name;         // client address
    std::uint32_t host = 0;   // digest of the client's host, for limits per host
    bool last_place = false;  // the other descriptors are reserved for the rest of the process
  };
  virtual Client accept(SocketId listener) = 0;
  // Accepts the oldest client and closes it at once, because accept() has no descriptor left.
  virtual Client accept_and_drop(SocketId listener) = 0;
  // Returns the maximum number of descriptors of the process.
  virtual std::size_t descriptors() const noexcept = 0;

  struct Ends {
    bool known = false;
    std::string own, peer;           // addresses of both ends
    std::uint32_t address_pair = 0;  // digest of the peer's and this side's host, in this order
  };
  virtual Ends ends(SocketId) const = 0;

  struct Moved {
    std::size_t bytes = 0;
    int error = 0;      // EAGAIN: would block; 0 without bytes: the peer closed its stream
    bool more = false;  // receive() only: there may be more data although the room was not filled
  };
  // Receives bytes. Fills `place`, which may be empty, then `behind`.
  virtual Moved receive(SocketId, iwarp::MutableBytes place, iwarp::MutableBytes behind) noexcept = 0;
  // Sends the pieces in order, starting at byte `skip` of the first piece.
  virtual Moved send(SocketId, std::span<const iwarp::Bytes> pieces, std::size_t skip) noexcept = 0;
  // Closes the sending direction. Returns false if the stream is broken.
  virtual bool shut_down(SocketId) noexcept = 0;
  virtual void close(SocketId) noexcept = 0;

  // Acknowledgement state of sent data.
  struct Delivery {
    bool known = false;
    bool pending = false;            // some sent bytes are not acknowledged
    unsigned attempts = 0;           // number of timeouts without success since the oldest bytes were sent
    std::uint64_t packets = 0;       // number of packets with data, including retransmissions
    Nanos quiet = 0;                 // time since the last packet with data
    std::uint32_t packet_bytes = 0;  // maximum packet size
    std::uint64_t acknowledged = 0;  // number of acknowledged bytes since the start of the stream
  };
  virtual Delivery delivery(SocketId) const noexcept { return {}; }

  // --- a guard encrypts a stream and authenticates the peer; the defaults mean "no guard" ---
  struct Guard {
    bool sealed = false;  // receive() needs an empty `place`, and kSealedRoom bytes in `behind`
    // False: receive() continues a handshake and returns no data before the end of the handshake.
    bool settled = true;
    bool has_output = false;  // handshake or alert bytes wait until the stream is writable
    std::size_t memory = 0;   // maximum memory of the guard in bytes
  };
  virtual Guard guard(SocketId) const noexcept { return {}; }
  // True if connect() creates encrypted streams.
  virtual bool seals() const noexcept { return false; }
  struct Recognised {
    int error = 0;    // EAGAIN: not known yet; kRefused: the client must use a guard, or must not; else the
                      // stream is broken
    std::string why;  // details of kRefused
  };
  // Determines from the first byte of an accepted client whether the client uses a guard. Call once, before
  // receive().
  virtual Recognised recognise(SocketId) { return {}; }
  // Identity of a client after the handshake; all zero and empty if no identity was requested.
  struct Peer {
    PeerIdentity identity{};
    std::string name;
  };
  virtual Peer peer(SocketId) const { return {}; }
  // Describes the encryption for the log.
  virtual std::string describe_guard(SocketId) const { return {}; }
  // Describes why receive() or send() returned kRefused.
  virtual std::string refusal(SocketId) const { return {}; }
  // If the guard has a message for this purpose, notifies the peer that the stream ends intentionally.
  virtual void announce_close(SocketId) noexcept {}
  // Adds the counters of the guard to the statistics.
  virtual void count(TcpStats&) const noexcept {}

  // --- readiness, level-triggered: unconsumed readiness is reported again ---
  struct Ready {
    Watched* one = nullptr;  // nullptr: the timer
    std::uint32_t events = 0;
    std::uint16_t addresses = 0;  // with kFound: number of addresses to choose from; 1 if there is no choice
    std::string name{};           // with kFound: the address to which the stream connects
  };
  // Sets the events to watch for; kBroken is always watched. Returns false if there is no memory.
  virtual bool watch(SocketId, std::uint32_t interest, Watched&) noexcept = 0;
  virtual void forget(SocketId) noexcept = 0;
  // Returns the sockets that are ready now. Valid until the next call.
  virtual std::span<const Ready> look() noexcept = 0;
  // Sets the timer to fire once at `when`. A later call replaces the time.
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
