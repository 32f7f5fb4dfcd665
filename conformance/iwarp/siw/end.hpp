// One end of an iWARP connection: the TCP fabric, or an adapter with libibverbs. An End has one connection at
// a time.
//
// Every function waits for at most kPatience, then throws Failure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace rtrs::siw {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr unsigned kPatienceSeconds = 20;
inline constexpr unsigned kMomentMs = 300;
inline constexpr std::size_t kMemoryBytes = std::size_t{4} << 20;     // memory that the peer may write to
inline constexpr std::size_t kSourceBytes = std::size_t{8} << 20;     // memory for outgoing data
inline constexpr std::size_t kMessageBytes = std::size_t{128} << 10;  // size of the largest SEND
inline constexpr unsigned kReceives = 96;                             // SENDs that may be in flight

struct Place {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

struct Answer {
  bool accepted = false;
  ByteVector data;  // private data of the accept or of the reject
};

class End {
 public:
  virtual ~End() = default;

  virtual void listen(const std::string& address, std::uint16_t port) = 0;
  // Waits for the next connect request and returns its private data. Call accept() or reject() next.
  virtual ByteVector request() = 0;
  virtual void accept(Bytes data) = 0;
  virtual void reject(Bytes data) = 0;
  // Connects from the local address `source`.
  virtual Answer connect(const std::string& source, const std::string& address, std::uint16_t port,
                         Bytes data) = 0;
  // Maximum size of the private data in bytes, for the initiator or the responder.
  [[nodiscard]] virtual std::size_t most_data(bool initiator) const = 0;

  // Memory of this connection that the peer may write to; place() is its address and key.
  [[nodiscard]] virtual MutableBytes memory() = 0;
  [[nodiscard]] virtual Place place() const = 0;
  virtual void send(Bytes message) = 0;
  virtual void write(const Place& to, Bytes payload) = 0;
  // Waits for the next SEND of the peer and returns its bytes.
  virtual ByteVector message() = 0;
  // True if a SEND has arrived or arrives within kMomentMs.
  virtual bool has_message() = 0;
  // Waits until the peer has ended the connection. Returns a description of how it ended.
  virtual std::string wait_for_end() = 0;
  // Ends the connection if necessary and frees its resources.
  virtual void disconnect() = 0;
};

// Returns an end on the TCP fabric, which logs to standard error. `crc`: requests CRCs.
std::unique_ptr<End> fabric_end(bool crc);
// Returns an end on the iWARP device that has the address, with libibverbs.
std::unique_ptr<End> verbs_end();

}  // namespace rtrs::siw
