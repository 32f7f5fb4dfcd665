// A socket with TLS: plain bytes in and out, non-blocking.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/platform/tls/channel.hpp"
#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

// Buffers shared by the encrypted streams of a fabric. Must outlive the streams.
struct SealedSpace {
  std::vector<std::byte> inbox;  // encrypted bytes of one receive call; empty without TLS
  tls::SealedBuffers outgoing;
};

class SealedStream {
 public:
  // `socket` belongs to the caller and must outlive this object.
  SealedStream(int socket, std::unique_ptr<tls::Channel> channel, SealedSpace& space) noexcept
      : socket_(socket), channel_(std::move(channel)), space_(space) {}

  [[nodiscard]] const tls::Channel& channel() const noexcept { return *channel_; }
  // True if the kernel encrypts: the caller writes plain bytes to the socket.
  [[nodiscard]] bool writes_plain() const noexcept { return channel_->in_kernel(); }
  // True if the kernel has not accepted all encrypted bytes yet.
  [[nodiscard]] bool has_output() const noexcept { return !channel_->output().empty(); }

  // Like Transport::receive(). `place` needs at least kSealedRoom bytes. Also runs the handshake, and returns
  // no bytes before its end.
  Transport::Moved receive(iwarp::MutableBytes place);
  // Like Transport::send(). Must not be called if writes_plain(). Bytes that the kernel has not accepted
  // completely are not counted; offer them again in the next call.
  Transport::Moved send(std::span<const iwarp::Bytes> pieces, std::size_t skip) noexcept;
  // Announces the end of the stream to the peer. Never waits, so the peer may miss the announcement.
  void announce_close() noexcept;

 private:
  // Returns 0 if the kernel has accepted all output of the channel; else an errno.
  int flush() noexcept;

  int socket_;
  std::unique_ptr<tls::Channel> channel_;
  SealedSpace& space_;
  std::size_t sealed_ = 0;  // plain bytes encrypted in the channel's current output
  bool ended_ = false;      // the last bytes from the peer have been returned
  bool broken_ = false;     // an error follows the last bytes
};

}  // namespace rtrs::tcp
