#include "backends/tcp/tcp_outbox.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace rtrs::tcp {
namespace {

// More are given back to the system.
constexpr std::size_t kKept = 16;

}  // namespace

void Outbox::advance(std::size_t bytes) noexcept {
  sent_ += bytes;
  const auto pieces = out_.pieces();
  while (bytes != 0) {
    const std::size_t rest = pieces[piece_].size() - offset_;
    if (bytes < rest) {
      offset_ += bytes;
      return;
    }
    bytes -= rest;
    ++piece_;
    offset_ = 0;
  }
}

Outbox::Sent Outbox::send(int socket, std::uint64_t& sent, std::uint64_t& calls, int& error) noexcept {
  std::array<iovec, kPieces> parts;
  while (!empty()) {
    const auto pieces = out_.pieces().subspan(piece_);
    const std::size_t count = std::min(pieces.size(), parts.size());
    std::size_t offered = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const iwarp::Bytes piece = i == 0 ? pieces[i].subspan(offset_) : pieces[i];
      parts[i] = {.iov_base = const_cast<std::byte*>(piece.data()), .iov_len = piece.size()};
      offered += piece.size();
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    ++calls;
    const ssize_t taken = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Sent::blocked;
      error = errno;
      return Sent::failed;
    }
    sent += static_cast<std::uint64_t>(taken);
    advance(static_cast<std::size_t>(taken));
    if (static_cast<std::size_t>(taken) < offered) return Sent::blocked;
  }
  return Sent::all;
}

std::unique_ptr<Outbox> Outboxes::take(std::size_t arena_bytes) {
  if (arena_bytes > Outbox::kArenaBytes) return std::make_unique<Outbox>(arena_bytes);
  if (free_.empty()) {
    free_.reserve(kKept);
    return std::make_unique<Outbox>();
  }
  std::unique_ptr<Outbox> box = std::move(free_.back());
  free_.pop_back();
  return box;
}

void Outboxes::give_back(std::unique_ptr<Outbox> box) noexcept {
  box->clear();
  if (box->arena_bytes() == Outbox::kArenaBytes && free_.size() < free_.capacity())
    free_.push_back(std::move(box));
}

}  // namespace rtrs::tcp
