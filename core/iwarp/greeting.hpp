// The MPA request and reply that open a connection: RFC 5044 section 7.1, RFC 6581 section 9.
//
// Each peer reads the other's frame with a GreetingReader and writes its own frame with write_request(),
// write_accept() or write_reject(). The private data of both frames starts with a urtrs field by which two
// urtrs peers recognise each other. Frames without this field are accepted. No clock, allocation or threads.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/iwarp/fault.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::iwarp {

inline constexpr std::size_t kGreetingHeaderBytes = 20;
inline constexpr std::size_t kMaxPrivateBytes = 512;  // maximum on the wire, including the two fields below
inline constexpr std::size_t kMaxGreetingBytes = kGreetingHeaderBytes + kMaxPrivateBytes;
inline constexpr std::size_t kDepthFieldBytes = 4;  // IRD and ORD of revision 2
inline constexpr std::size_t kOwnFieldBytes = 8;    // "uRTR", version 1, flags, two zero bytes
// Maximum length of the caller's private data. A frame with both fields has room for it.
inline constexpr std::size_t kMaxCallerBytes = kMaxPrivateBytes - kDepthFieldBytes - kOwnFieldBytes;

// Options that a peer requests. Both peers pass their own and the received options to agree().
struct Wishes {
  bool crc = false;                 // agreed if either peer requests it
  bool send_with_immediate = true;  // agreed if both peers request it
  bool operator==(const Wishes&) const = default;
};

// A request or reply that was received.
struct Greeting {
  std::uint8_t revision = 2;  // 1 or 2
  bool rejected = false;      // only set in a reply
  bool enhanced = false;      // has the IRD/ORD field: revision 2 with the S flag
  bool peer_to_peer = false;  // the initiator sends an empty RDMA write first, so that the responder may send
  std::uint16_t ird = 0;      // 0..16383, valid if `enhanced`. Informational: urtrs issues no RDMA reads
  std::uint16_t ord = 0;
  bool own = false;  // has the urtrs field
  Wishes wishes{.crc = false, .send_with_immediate = false};
  Bytes private_data{};  // the caller's private data; points into the reader's memory
};

// Options of the connection; both peers compute the same result. `mine` are the options that this peer
// requested.
[[nodiscard]] constexpr Wishes agree(const Wishes& mine, const Greeting& peer) noexcept {
  return {.crc = mine.crc || peer.wishes.crc,
          .send_with_immediate = mine.send_with_immediate && peer.wishes.send_with_immediate};
}

enum class GreetingKind : std::uint8_t { request, reply };

// Reads one request or reply, in pieces of any size. A byte with a fixed value is checked as soon as it
// arrives. Holds at most kMaxGreetingBytes.
//
// Neither peer may send anything after its frame until it is answered: the initiator waits for the reply, the
// responder for the first FPDU. So a responder feeds everything that it reads until it has sent its reply,
// even if the request is complete. An initiator feeds everything that arrived with the reply. Bytes after the
// frame are a fault.
class GreetingReader {
 public:
  explicit GreetingReader(GreetingKind kind) noexcept : kind_(kind) {}

  // Consumes the next bytes, any number. Returns fault(). After a fault, input is ignored.
  Fault feed(Bytes bytes) noexcept;

  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  // True if the whole frame has arrived and is valid.
  [[nodiscard]] bool complete() const noexcept { return fault_ == Fault::none && missing() == 0; }
  // Minimum number of bytes still missing; 0 if complete or rejected.
  [[nodiscard]] std::size_t missing() const noexcept;

  // Valid once complete(). After Fault::markers only the revision and the flags are valid; they are needed to
  // write the reject. `private_data` points into this object and is valid until the object is moved or fed.
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
  // False for a peer whose software reads the private data from the first byte, such as a kernel. SEND with
  // immediate is then off.
  bool own_field = true;
};

// Each function writes a whole frame to the start of `out` and returns its length. Returns 0 and writes
// nothing if `private_data` is too long or `out` too small. kMaxGreetingBytes is always enough.
//
// Writes a revision 2 request with IRD and ORD that asks for an empty RDMA write as the first FPDU.
[[nodiscard]] std::size_t write_request(const RequestOptions&, Bytes private_data, MutableBytes out) noexcept;
// Uses the revision and the fields of the request. Sets the CRC flag if either peer requests CRC.
[[nodiscard]] std::size_t write_accept(const Greeting& request, const Wishes& mine, Bytes private_data,
                                       MutableBytes out) noexcept;
[[nodiscard]] std::size_t write_reject(const Greeting& request, Bytes private_data,
                                       MutableBytes out) noexcept;

}  // namespace rtrs::iwarp
