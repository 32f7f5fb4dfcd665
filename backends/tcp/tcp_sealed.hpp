// A socket with TLS over it: plain octets in and out without waiting.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "backends/tls/channel.hpp"
#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

// What the sealed streams of a fabric share. Outlives them.
struct SealedSpace {
  std::vector<std::byte> inbox;  // sealed octets of one call; empty without TLS
  tls::SealedBuffers outgoing;
};

class SealedStream {
 public:
  // `socket` stays the caller's and outlives this.
  SealedStream(int socket, std::unique_ptr<tls::Channel> channel, SealedSpace& space) noexcept
      : socket_(socket), channel_(std::move(channel)), space_(space) {}

  [[nodiscard]] const tls::Channel& channel() const noexcept { return *channel_; }
  // What is written to the socket is plain: the kernel seals it.
  [[nodiscard]] bool writes_plain() const noexcept { return channel_->in_kernel(); }
  // There are octets of TLS itself that the kernel did not take.
  [[nodiscard]] bool has_output() const noexcept { return !channel_->output().empty(); }

  // As of Transport. `place` has room for kSealedRoom at least. The handshake is a part of it: before its end
  // there are no octets.
  Transport::Moved receive(iwarp::MutableBytes place);
  // As of Transport; not with writes_plain(). What the kernel has not yet taken whole is not counted, and is
  // offered again in the next call.
  Transport::Moved send(std::span<const iwarp::Bytes> pieces, std::size_t skip) noexcept;
  // Says that nothing more comes, as far as the kernel takes it.
  void say_goodbye() noexcept;

 private:
  // 0: all output of the channel is with the kernel; else an errno.
  int flush() noexcept;

  int socket_;
  std::unique_ptr<tls::Channel> channel_;
  SealedSpace& space_;
  std::size_t sealed_ = 0;  // plain octets that the output of the channel stands for
  bool ended_ = false;      // the peer's last octets were handed out
  bool broken_ = false;     // what came after them is refused
};

}  // namespace rtrs::tcp
