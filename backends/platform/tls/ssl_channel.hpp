// A channel implemented with OpenSSL. OpenSSL reads from and writes to memory buffers. With a socket, OpenSSL
// writes its handshake to the socket itself, which it requires in order to pass keys to the kernel.
#pragma once
#include <memory>
#include <string>

#include "backends/platform/tls/ssl_context.hpp"

namespace rtrs::tls {

class SslChannel final : public Channel {
 public:
  SslChannel(std::shared_ptr<const SslContext>, Side, int socket, SealedBuffers&);
  ~SslChannel() override;
  SslChannel(const SslChannel&) = delete;
  SslChannel& operator=(const SslChannel&) = delete;
  // Returns false if there is no memory.
  bool start(const std::string& server);

  Opened open(std::span<const std::byte> sealed, std::span<std::byte> plain) override;
  std::size_t seal(std::span<const std::span<const std::byte>> parts, std::size_t skip) noexcept override;
  void close() noexcept override;
  std::span<const std::byte> output() const noexcept override;
  void sent(std::size_t bytes) noexcept override;
  bool established() const noexcept override { return established_; }
  bool in_kernel() const noexcept override { return in_kernel_; }
  bool resumed() const noexcept override { return resumed_; }
  const std::string& identity() const noexcept override { return identity_; }
  IdentityDigest identity_digest() const noexcept override;
  std::string description() const override;
  const std::string& error() const noexcept override { return error_; }

  // --- for ssl_callbacks.cpp ---
  const SslContext& context() const noexcept { return *context_; }
  const std::string& server() const noexcept { return server_; }
  Keys::value_type const* own_key() const noexcept { return context_->own_key(); }
  // note_unknown() records an identity that the peer offers and that has no key here;
  // set_requested_identity() records an identity that has a key.
  void note_unknown(std::string identity) { unknown_ = std::move(identity); }
  void set_requested_identity(std::string identity) { asked_ = std::move(identity); }
  void note_refusal(std::string why) { refusal_ = std::move(why); }
  // Records the name in a peer's certificate that is expired or not yet valid.
  void record_expired_name(std::string name) { expired_name_ = std::move(name); }
  // Handles a message of the peer's handshake protocol.
  void note_message(std::span<const unsigned char>);

  // --- for the BIO ---
  int give(char* to, int most) noexcept;
  // Returns -1 if there is no room.
  int take(const char* from, int bytes) noexcept;
  // Writes to the socket like send(2), without SIGPIPE. With kernel encryption, sends a record of type
  // `record_type_`.
  int write(const char* from, int bytes) noexcept;
  void set_record_type(unsigned char type) noexcept { record_type_ = type; }

 private:
  // Stores the identity of the peer after the handshake. Returns false if the peer is rejected or if there is
  // no memory.
  bool establish();
  Opened fail(int ssl_error);
  Opened fail(std::string why);
  std::string why(int ssl_error) const;
  bool seal_record(const std::byte* from, std::size_t bytes) noexcept;
  std::size_t room() const noexcept { return kSealedBytes - end_; }

  std::shared_ptr<const SslContext> context_;
  Side side_;
  int socket_;
  SealedBuffers& buffers_;
  Owned<SSL> ssl_;
  std::string server_;  // key under which the client stores tickets

  std::span<const std::byte> in_{};
  SealedBuffers::Buffer out_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t handshake_bytes_ = 0;
  std::uint64_t received_ = 0;         // encrypted bytes received
  std::uint64_t records_ = 0;          // records sent with the current key
  std::uint64_t next_key_update_ = 0;  // the peer may update its key when received_ has this value
  unsigned tickets_ = 0;

  bool established_ = false;
  bool in_kernel_ = false;
  unsigned char record_type_ = 0;  // type of the next record to send; 0: data
  bool resumed_ = false;
  bool failed_ = false;
  std::string identity_;
  std::string unknown_;
  std::string asked_;
  std::string refusal_;
  std::string expired_name_;
  std::string error_;
};

}  // namespace rtrs::tls
