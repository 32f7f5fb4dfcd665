#include "backends/tcp/tcp_line.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rtrs::tcp {
namespace {

constexpr std::size_t kPieces = 1024;  // what one call of the kernel takes (UIO_MAXIOV)
// Calls that bring parts of a record, before it is another connection's turn.
constexpr unsigned kCalls = 4;

int moved_nothing() noexcept {
  return errno == EWOULDBLOCK || errno == EINTR ? EAGAIN : errno;
}

Line::Moved send_plain(int fd, std::span<const iwarp::Bytes> pieces, std::size_t skip,
                       std::uint64_t& calls) noexcept {
  std::array<iovec, kPieces> parts;
  const std::size_t count = std::min(pieces.size(), parts.size());
  for (std::size_t i = 0; i < count; ++i) {
    const iwarp::Bytes piece = i == 0 ? pieces[i].subspan(skip) : pieces[i];
    parts[i] = {.iov_base = const_cast<std::byte*>(piece.data()), .iov_len = piece.size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  ++calls;
  const ssize_t taken = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (taken < 0) return {.bytes = 0, .error = moved_nothing()};
  return {.bytes = static_cast<std::size_t>(taken), .error = 0};
}

// Drops `bytes` octets from the front.
void advance(std::span<const iwarp::Bytes>& pieces, std::size_t& skip, std::size_t bytes) noexcept {
  skip += bytes;
  while (!pieces.empty() && skip >= pieces.front().size()) {
    skip -= pieces.front().size();
    pieces = pieces.subspan(1);
  }
}

}  // namespace

Line::Moved Line::receive(iwarp::MutableBytes place, std::uint64_t& calls) {
  if (channel_ != nullptr) return receive_sealed(place, calls);
  ++calls;
  const ssize_t got = ::recv(fd_.get(), place.data(), place.size(), MSG_DONTWAIT);
  if (got < 0) return {.bytes = 0, .error = moved_nothing()};
  const auto bytes = static_cast<std::size_t>(got);
  return {.bytes = bytes, .error = 0, .dry = bytes < place.size()};
}

Line::Moved Line::receive_sealed(iwarp::MutableBytes place, std::uint64_t& calls) {
  const iwarp::MutableBytes inbox(space_->inbox.data(),
                                  std::min(space_->inbox.size(), place.size() - tls::kRecordBytes));
  if (broken_) return {.bytes = 0, .error = EPROTO};
  if (ended_) return {};
  for (unsigned i = 0; i < kCalls; ++i) {
    ++calls;
    const ssize_t got = ::recv(fd_.get(), inbox.data(), inbox.size(), MSG_DONTWAIT);
    if (got == 0) return {};
    const int error = got < 0 ? moved_nothing() : 0;
    if (error != 0 && error != EAGAIN) return {.bytes = 0, .error = error};
    // Nothing, in the handshake: a client has to begin it.
    if (error != 0 && channel_->established()) return {.bytes = 0, .error = EAGAIN};
    const tls::Channel::Opened opened =
        channel_->open(inbox.first(error != 0 ? 0 : static_cast<std::size_t>(got)), place);
    // Answers of the handshake, or an alert. What the kernel does not take goes with what is sent next.
    (void)flush(calls);
    ended_ = opened.state == tls::Channel::State::closed;
    broken_ = opened.state == tls::Channel::State::failed;
    const bool dry = static_cast<std::size_t>(std::max<ssize_t>(got, 0)) < inbox.size();
    if (opened.bytes != 0) return {.bytes = opened.bytes, .error = 0, .dry = dry && !ended_ && !broken_};
    if (broken_) return {.bytes = 0, .error = EPROTO};
    if (ended_) return {};
    if (dry) break;
  }
  return {.bytes = 0, .error = EAGAIN};
}

int Line::flush(std::uint64_t& calls) noexcept {
  while (!channel_->output().empty()) {
    const iwarp::Bytes output = channel_->output();
    ++calls;
    const ssize_t taken = ::send(fd_.get(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) return moved_nothing();
    channel_->sent(static_cast<std::size_t>(taken));
    if (static_cast<std::size_t>(taken) < output.size()) return EAGAIN;
  }
  return 0;
}

Line::Moved Line::send(std::span<const iwarp::Bytes> pieces, std::size_t skip,
                       std::uint64_t& calls) noexcept {
  if (channel_ == nullptr || channel_->in_kernel()) return send_plain(fd_.get(), pieces, skip, calls);
  return send_sealed(pieces, skip, calls);
}

Line::Moved Line::send_sealed(std::span<const iwarp::Bytes> pieces, std::size_t skip,
                              std::uint64_t& calls) noexcept {
  if (!channel_->established()) return {.bytes = 0, .error = EAGAIN};
  Moved moved;
  while (!pieces.empty()) {
    if (sealed_ == 0) sealed_ = channel_->seal(pieces, skip);
    const bool nothing = sealed_ == 0 && channel_->output().empty();
    const int error = nothing ? EPROTO : flush(calls);
    if (error != 0) {
      if (moved.bytes == 0) moved.error = error;
      return moved;
    }
    moved.bytes += sealed_;
    advance(pieces, skip, std::exchange(sealed_, 0));
  }
  return moved;
}

bool Line::shut_down() noexcept {
  say_goodbye();
  return ::shutdown(fd_.get(), SHUT_WR) == 0;
}

void Line::say_goodbye() noexcept {
  std::uint64_t calls = 0;
  // Behind half of a record the peer would find it broken.
  if (channel_ == nullptr || flush(calls) != 0) return;
  channel_->close();
  (void)flush(calls);
}

}  // namespace rtrs::tcp
