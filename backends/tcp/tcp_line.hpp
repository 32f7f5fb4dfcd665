// A socket of a connection, plain or with TLS over it: octets in and out without waiting.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/address/unique_fd.hpp"
#include "backends/tls/channel.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::tcp {

// What the lines of a fabric share. Outlives them.
struct SealedSpace {
  std::vector<std::byte> inbox;  // sealed octets of one call; empty without TLS
  tls::SealedBuffers outgoing;
};

class Line {
 public:
  Line() = default;
  explicit Line(net::UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  Line(Line&&) noexcept = default;
  Line& operator=(Line&&) noexcept = default;
  ~Line() = default;

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  void reset(int fd = -1) noexcept {
    channel_.reset();
    sealed_ = 0;
    fd_.reset(fd);
  }

  // From now on all goes through it.
  void secure(std::unique_ptr<tls::Channel> channel, SealedSpace& space) noexcept {
    channel_ = std::move(channel);
    space_ = &space;
  }
  // Null: plain.
  [[nodiscard]] const tls::Channel* channel() const noexcept { return channel_.get(); }
  [[nodiscard]] bool established() const noexcept { return channel_ == nullptr || channel_->established(); }
  // What is received need not be opened, so that it may go straight to its place.
  [[nodiscard]] bool straight() const noexcept { return channel_ == nullptr; }

  struct Moved {
    std::size_t bytes = 0;
    int error =
        0;  // of no octets: an errno, EAGAIN: nothing now, EPROTO: TLS refused it; 0: the peer ended it
    bool dry = false;  // receive(): the kernel had no more than this
  };
  // `calls` grows by system calls. With TLS `place` must have room for one record (tls::kRecordBytes) and
  // more, and the handshake is a part of it: before its end there are no octets.
  Moved receive(iwarp::MutableBytes place, std::uint64_t& calls);
  // Takes octets from the front of `pieces`, of which `skip` were taken before. Less than all: the kernel
  // takes no more now. With TLS those that it has not yet taken whole are offered again in the next call.
  Moved send(std::span<const iwarp::Bytes> pieces, std::size_t skip, std::uint64_t& calls) noexcept;
  // Nothing is sent after it. False: the socket is broken.
  bool shut_down() noexcept;
  // Says with TLS that nothing more comes, as far as the kernel takes it.
  void say_goodbye() noexcept;
  // There are octets of TLS itself that the kernel did not take.
  [[nodiscard]] bool has_output() const noexcept {
    return channel_ != nullptr && !channel_->output().empty();
  }
  // Why TLS refused it.
  [[nodiscard]] std::string error_text() const { return channel_ == nullptr ? "" : channel_->error(); }

 private:
  Moved receive_sealed(iwarp::MutableBytes place, std::uint64_t& calls);
  Moved send_sealed(std::span<const iwarp::Bytes> pieces, std::size_t skip, std::uint64_t& calls) noexcept;
  // 0: all output of the channel is with the kernel; else an errno.
  int flush(std::uint64_t& calls) noexcept;

  net::UniqueFd fd_;
  std::unique_ptr<tls::Channel> channel_;
  SealedSpace* space_ = nullptr;
  std::size_t sealed_ = 0;  // plain octets that the output of the channel stands for
  bool ended_ = false;      // the peer's last octets were handed out
  bool broken_ = false;     // what came after them is refused
};

}  // namespace rtrs::tcp
