// The MPA request and reply that open a connection: RFC 5044 section 7.1, RFC 6581 section 9.
//
// An end reads the other's frame with a GreetingReader and writes its own with write_request(),
// write_accept() or write_reject(). The private data of both frames begins with a field of ours, by which two
// ends of urtrs know each other; a peer without it is read all the same. Values without a clock, allocation
// or threads.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/iwarp/fault.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::iwarp {

inline constexpr std::size_t kGreetingHeaderBytes = 20;
inline constexpr std::size_t kMaxPrivateBytes = 512;  // on the wire, with the two fields below
inline constexpr std::size_t kMaxGreetingBytes = kGreetingHeaderBytes + kMaxPrivateBytes;
inline constexpr std::size_t kDepthFieldBytes = 4;  // IRD and ORD of revision 2
inline constexpr std::size_t kOwnFieldBytes = 8;    // "uRTR", version 1, flags, two zeroes
// Private data of a caller that fits whatever the peer is.
inline constexpr std::size_t kMaxCallerBytes = kMaxPrivateBytes - kDepthFieldBytes - kOwnFieldBytes;

// What an end would have. Both ends put theirs and what they read into agree().
struct Wishes {
  bool crc = false;                 // on when either asks
  bool send_with_immediate = true;  // on when both ask
  bool operator==(const Wishes&) const = default;
};

// A request or reply as it was read.
struct Greeting {
  std::uint8_t revision = 2;  // 1 or 2
  bool rejected = false;      // replies only
  bool enhanced = false;      // has the field of IRD and ORD: revision 2 with the S flag
  bool peer_to_peer = false;  // the initiator sends an empty RDMA write first, so that the responder may send
  std::uint16_t ird = 0;      // 0..16383, where `enhanced`. Nobody reads: both are told and not used
  std::uint16_t ord = 0;
  bool own = false;  // has our field
  Wishes wishes{.crc = false, .send_with_immediate = false};
  Bytes private_data{};  // of the caller; in the reader's memory
};

// What holds on the connection; both ends come to the same. `mine` is what this end was given as its wishes.
[[nodiscard]] constexpr Wishes agree(const Wishes& mine, const Greeting& peer) noexcept {
  return {.crc = mine.crc || peer.wishes.crc,
          .send_with_immediate = mine.send_with_immediate && peer.wishes.send_with_immediate};
}

enum class GreetingKind : std::uint8_t { request, reply };

// Reads one request or reply in whatever pieces it comes. Every octet that can only be one value is compared
// when it comes. Holds at most kMaxGreetingBytes.
//
// Neither end may send anything behind its frame before it was answered: the initiator waits for the reply,
// the responder for the first FPDU. So a responder feeds all that it reads until it has sent its reply, also
// when the request is complete, and an initiator all that came with the reply; what is behind is a fault.
class GreetingReader {
 public:
  explicit GreetingReader(GreetingKind kind) noexcept : kind_(kind) {}

  // The next octets, any number. Returns fault(). After a fault nothing is looked at any more.
  Fault feed(Bytes bytes) noexcept;

  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  // The whole frame is there and good.
  [[nodiscard]] bool complete() const noexcept { return fault_ == Fault::none && missing() == 0; }
  // Octets that are missing at least; 0 when complete or refused.
  [[nodiscard]] std::size_t missing() const noexcept;

  // Good once complete(), and as far as the revision and the flags go after Fault::markers, which a reject
  // answers. `private_data` lies in this object and is good as long as it is not moved or fed.
  [[nodiscard]] Greeting greeting() const noexcept;

 private:
  [[nodiscard]] Fault judge(std::size_t at) const noexcept;
  [[nodiscard]] Fault judge_revision() const noexcept;
  [[nodiscard]] bool flag(unsigned bit) const noexcept;
  [[nodiscard]] bool enhanced() const noexcept;
  [[nodiscard]] std::size_t private_bytes() const noexcept;
  [[nodiscard]] bool has_own_field() const noexcept;

  GreetingKind kind_;
  Fault fault_ = Fault::none;
  std::uint16_t held_ = 0;
  std::array<std::byte, kMaxGreetingBytes> bytes_;
};

struct RequestOptions {
  Wishes wishes{};
  // False for a peer whose software reads the private data from its first octet: a kernel. Then there is no
  // SEND with immediate.
  bool own_field = true;
};

// Each writes a whole frame at the start of `out` and returns its length; 0, with nothing written, when
// `private_data` is too long or `out` too small. kMaxGreetingBytes is always enough.
//
// Revision 2 with IRD and ORD, asking for an empty RDMA write as the first FPDU.
[[nodiscard]] std::size_t write_request(const RequestOptions&, Bytes private_data, MutableBytes out) noexcept;
// In the revision and with the fields of the request; the CRC flag is on if either end asks.
[[nodiscard]] std::size_t write_accept(const Greeting& request, const Wishes& mine, Bytes private_data,
                                       MutableBytes out) noexcept;
[[nodiscard]] std::size_t write_reject(const Greeting& request, Bytes private_data,
                                       MutableBytes out) noexcept;

}  // namespace rtrs::iwarp
