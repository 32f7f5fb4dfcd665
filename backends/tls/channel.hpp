// TLS as a transform of octets, between a socket and what is said over it: sealed octets in, plain ones out,
// and the other way. It opens no socket and waits for nothing.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/tls/renewal.hpp"
#include "backends/tls/tls.hpp"

namespace rtrs::tls {

// Payload of one record at most.
inline constexpr std::size_t kRecordBytes = std::size_t{16} << 10;
// What a record is longer than its payload at most (RFC 8446 section 5.2).
inline constexpr std::size_t kRecordOverhead = 5 + 256;
// Sealed octets that may wait to be sent, of one connection.
inline constexpr std::size_t kSealedBytes = 10 * (kRecordBytes + kRecordOverhead);
// What OpenSSL holds for one connection: measured with its buffers for a record each way.
inline constexpr std::size_t kChannelBytes = std::size_t{64} << 10;
// A handshake may take so many octets of the peer.
inline constexpr std::size_t kMaxHandshakeBytes = std::size_t{64} << 10;

// Room for sealed octets, shared by channels: one that has nothing to send has none. Outlives its channels.
class SealedBuffers {
 public:
  using Buffer = std::unique_ptr<std::byte[]>;  // of kSealedBytes
  // May throw std::bad_alloc.
  Buffer take();
  void give_back(Buffer) noexcept;

 private:
  std::vector<Buffer> free_;
};

// The digest by which a server tells identities apart; all zero: none.
using IdentityDigest = std::array<std::uint64_t, 2>;

class Channel {
 public:
  enum class State : std::uint8_t {
    open,
    closed,  // the peer said that it sends nothing more
    failed,  // error() says why; what output() has may still be sent: an alert
  };
  struct Opened {
    std::size_t bytes = 0;
    State state = State::open;
  };

  virtual ~Channel() = default;

  // Takes all of `sealed` and puts what it holds to the front of `plain`, whose length must be at least that
  // of `sealed` and kRecordBytes more. A client calls it with nothing first, for its hello. Nothing of a peer
  // comes out before established(). Then and after it output() may have something.
  virtual Opened open(std::span<const std::byte> sealed, std::span<std::byte> plain) = 0;
  // Seals octets of `parts` behind the first `skip`, as many as there is room for, and returns how many. Only
  // once established(), and not with in_kernel(). `skip` is less than the first part, or there is none.
  virtual std::size_t seal(std::span<const std::span<const std::byte>> parts, std::size_t skip) noexcept = 0;
  // Says that nothing more will be sent. Once.
  virtual void close() noexcept = 0;

  // To be sent. sent() takes octets off its front.
  [[nodiscard]] virtual std::span<const std::byte> output() const noexcept = 0;
  virtual void sent(std::size_t bytes) noexcept = 0;

  // The handshake is over and the peer is who it says.
  [[nodiscard]] virtual bool established() const noexcept = 0;
  // The kernel seals: what is written to the socket is plain.
  [[nodiscard]] virtual bool in_kernel() const noexcept = 0;
  [[nodiscard]] virtual bool resumed() const noexcept = 0;
  // Of a client as its server knows it: the common name of its certificate, or that of its key. Of a server
  // the same where it fits is_identity(), else empty.
  [[nodiscard]] virtual const std::string& identity() const noexcept = 0;
  [[nodiscard]] virtual IdentityDigest identity_digest() const noexcept = 0;
  // "TLS 1.3, TLS_AES_128_GCM_SHA256, identity alice, key (or certificate), kernel"
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual const std::string& error() const noexcept = 0;
};

enum class Side : std::uint8_t { client, server };

class Context {
 public:
  virtual ~Context() = default;
  // `server` is what a client connects to, "10.0.0.1" or "host": its name is looked for in the certificate of
  // the server, unless Credentials::server_name says another. `socket` is where the kernel may seal; -1:
  // nowhere. Null: no memory.
  virtual std::unique_ptr<Channel> open_channel(Side, const std::string& server, int socket,
                                                SealedBuffers&) const = 0;
  // False where a client would have to choose one of several keys (Credentials::identity).
  [[nodiscard]] virtual bool can_connect() const noexcept = 0;
  // Those of the keys: "alice, bob", of many the first ones.
  [[nodiscard]] virtual std::string identities() const = 0;
  // "certificates signed by FILE and 3 keys of FILE"
  [[nodiscard]] virtual std::string description() const = 0;
  // Credentials that the context was made from, and marks of their files taken before they were read, in the
  // order of files_of().
  [[nodiscard]] virtual const Credentials& credentials() const noexcept = 0;
  [[nodiscard]] virtual const FileMarks& marks() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<Expiry>& expiries() const noexcept = 0;
  // When the own certificate becomes valid, seconds since 1970; 0: it is.
  [[nodiscard]] virtual std::int64_t valid_from() const noexcept = 0;
};

// Those that are given.
std::vector<std::string> files_of(const Credentials&);
// Reads the files of a client's context again when they change; what look() returns is a Context. `threads`:
// as of Renewal.
std::unique_ptr<Renewal> renewal_of(const Context&, Renewal::Tell, bool threads);

}  // namespace rtrs::tls
