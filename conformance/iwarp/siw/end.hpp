// One end of one iWARP connection at a time: that of the TCP fabric, or that of an adapter behind libibverbs.
//
// Every function waits for at most kPatience and throws Failure when what it waits for does not come.
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
using Octets = std::vector<std::byte>;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr unsigned kPatienceSeconds = 20;
inline constexpr unsigned kMomentMs = 300;
inline constexpr std::size_t kMemoryBytes = std::size_t{4} << 20;     // that the peer may write to
inline constexpr std::size_t kSourceBytes = std::size_t{8} << 20;     // of what is being sent
inline constexpr std::size_t kMessageBytes = std::size_t{128} << 10;  // of the largest SEND
inline constexpr unsigned kReceives = 96;                             // SENDs that may be under way

struct Place {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

struct Answer {
  bool accepted = false;
  Octets data;  // private data of the accept or of the reject
};

class End {
 public:
  virtual ~End() = default;

  virtual void listen(const std::string& address, std::uint16_t port) = 0;
  // Private data of the next connect request, which then waits for accept() or reject().
  virtual Octets request() = 0;
  virtual void accept(Bytes data) = 0;
  virtual void reject(Bytes data) = 0;
  // From the address `source` of this machine.
  virtual Answer connect(const std::string& source, const std::string& address, std::uint16_t port,
                         Bytes data) = 0;
  // Octets of private data that fit, at the initiator and at the responder.
  [[nodiscard]] virtual std::size_t most_data(bool initiator) const = 0;

  // Of this connection.
  [[nodiscard]] virtual MutableBytes memory() = 0;
  [[nodiscard]] virtual Place place() const = 0;
  virtual void send(Bytes message) = 0;
  virtual void write(const Place& to, Bytes payload) = 0;
  // The next SEND of the peer.
  virtual Octets message() = 0;
  // Whether it is there, or comes within a moment.
  virtual bool has_message() = 0;
  // Until it is told that the peer ended the connection; says in its own words how.
  virtual std::string wait_for_end() = 0;
  // Ends it, if it is not ended yet, and frees what belongs to it.
  virtual void disconnect() = 0;
};

// `crc`: ask for it. What the fabric has to say goes to standard error.
std::unique_ptr<End> fabric_end(bool crc);
// An iWARP device of libibverbs, whichever has the address.
std::unique_ptr<End> verbs_end();

}  // namespace rtrs::siw
