// TLS as a transform of bytes between a socket and plain data: encrypted bytes in, plain bytes out, and the
// reverse. Opens no socket and never blocks.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/platform/tls/renewal.hpp"
#include "backends/platform/tls/tls.hpp"

namespace rtrs::tls {

// Maximum payload of one record in bytes.
inline constexpr std::size_t kRecordBytes = std::size_t{16} << 10;
// Maximum overhead of a record in bytes (RFC 8446 section 5.2).
inline constexpr std::size_t kRecordOverhead = 5 + 256;
// Maximum number of encrypted bytes per connection that wait to be sent.
inline constexpr std::size_t kSealedBytes = 10 * (kRecordBytes + kRecordOverhead);
// Memory in bytes that OpenSSL uses per connection: measured, with its buffers for one record in each
// direction.
inline constexpr std::size_t kChannelBytes = std::size_t{64} << 10;
// Maximum number of bytes that the peer may send in a handshake.
inline constexpr std::size_t kMaxHandshakeBytes = std::size_t{64} << 10;

// Pool of output buffers shared by channels; a channel with nothing to send holds no buffer. Must outlive its
// channels.
class SealedBuffers {
 public:
  using Buffer = std::unique_ptr<std::byte[]>;  // kSealedBytes long
  // May throw std::bad_alloc.
  Buffer take();
  void give_back(Buffer) noexcept;

 private:
  std::vector<Buffer> free_;
};

// Digest by which a server distinguishes identities; all zero: no identity.
using IdentityDigest = std::array<std::uint64_t, 2>;

class Channel {
 public:
  enum class State : std::uint8_t {
    open,
    closed,  // the peer announced that it sends nothing more
    failed,  // error() has the reason; output() may hold an alert that should still be sent
  };
  struct Opened {
    std::size_t bytes = 0;
    State state = State::open;
  };

  virtual ~Channel() = default;

  // Consumes all of `sealed` and writes the decrypted data to the start of `plain`, which must be at least
  // kRecordBytes longer than `sealed`. A client calls it first with no input, to produce its hello. Returns
  // no data of the peer before established(). Each call may add bytes to output(), during the handshake and
  // later.
  virtual Opened open(std::span<const std::byte> sealed, std::span<std::byte> plain) = 0;
  // Skips the first `skip` bytes of `parts`, encrypts as many of the others as there is room for, and returns
  // their number. Requires established(), and not in_kernel(). `skip` is less than the length of the first
  // part, or there are no parts.
  virtual std::size_t seal(std::span<const std::span<const std::byte>> parts, std::size_t skip) noexcept = 0;
  // Announces to the peer that this side sends nothing more. Call once.
  virtual void close() noexcept = 0;

  // Encrypted bytes to send. sent() removes bytes from the front.
  [[nodiscard]] virtual std::span<const std::byte> output() const noexcept = 0;
  virtual void sent(std::size_t bytes) noexcept = 0;

  // True if the handshake is complete and the peer is authenticated.
  [[nodiscard]] virtual bool established() const noexcept = 0;
  // True if the kernel encrypts: the caller then writes plain data to the socket.
  [[nodiscard]] virtual bool in_kernel() const noexcept = 0;
  [[nodiscard]] virtual bool resumed() const noexcept = 0;
  // Identity of the peer. For a client: the common name of its certificate, or the identity of its key. For a
  // server: the same if is_identity() accepts it, else empty.
  [[nodiscard]] virtual const std::string& identity() const noexcept = 0;
  [[nodiscard]] virtual IdentityDigest identity_digest() const noexcept = 0;
  // Returns a text for a log, such as "TLSv1.3 TLS_AES_128_GCM_SHA256, identity alice, resumed, sealed by the
  // kernel".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual const std::string& error() const noexcept = 0;
};

enum class Side : std::uint8_t { client, server };

class Context {
 public:
  virtual ~Context() = default;
  // `server` is the destination of a client, "10.0.0.1" or "host". The server's certificate must contain this
  // name unless Credentials::server_name sets another one. `socket` is the socket for kernel encryption; -1:
  // none. Returns null if there is no memory.
  virtual std::unique_ptr<Channel> open_channel(Side, const std::string& server, int socket,
                                                SealedBuffers&) const = 0;
  // False if a client would have to choose between several keys (Credentials::identity).
  [[nodiscard]] virtual bool can_connect() const noexcept = 0;
  // Returns the identities of the keys: "alice, bob"; if there are many, only the first ones.
  [[nodiscard]] virtual std::string identities() const = 0;
  // Returns a text for a log, such as "certificates signed by FILE and 3 keys of FILE".
  [[nodiscard]] virtual std::string description() const = 0;
  // credentials() returns the credentials of this context. marks() returns the marks of their files, taken
  // before the files were read, in the order of files_of().
  [[nodiscard]] virtual const Credentials& credentials() const noexcept = 0;
  [[nodiscard]] virtual const FileMarks& marks() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<Expiry>& expiries() const noexcept = 0;
  // Time from which this side's certificate is valid, in seconds since 1970; 0: already valid.
  [[nodiscard]] virtual std::int64_t valid_from() const noexcept = 0;
};

// Returns the paths of the files in the credentials; empty ones are left out.
std::vector<std::string> files_of(const Credentials&);
// Returns an object that reads the credential files of a client's context again when the files change. The
// object's look() returns a Context. `threads`: see Renewal.
std::unique_ptr<Renewal> renewal_of(const Context&, Renewal::Tell, bool threads);

}  // namespace rtrs::tls
