#include "backends/tcp/tcp_sealed.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/assert.hpp"

namespace rtrs::tcp {
namespace {

// Maximum number of receive calls that read only part of a record, per connection and turn.
constexpr unsigned kCalls = 4;

int transfer_errno() noexcept {
  return errno == EWOULDBLOCK || errno == EINTR ? EAGAIN : errno;
}

// Advances `pieces` and `skip` by `bytes` bytes.
void advance(std::span<const iwarp::Bytes>& pieces, std::size_t& skip, std::size_t bytes) noexcept {
  skip += bytes;
  while (!pieces.empty() && skip >= pieces.front().size()) {
    skip -= pieces.front().size();
    pieces = pieces.subspan(1);
  }
}

}  // namespace

Transport::Moved SealedStream::receive(iwarp::MutableBytes place) {
  static_assert(kSealedRoom > 2 * tls::kRecordBytes);
  RTRS_ASSERT(place.size() >= kSealedRoom);
  const iwarp::MutableBytes inbox(space_.inbox.data(),
                                  std::min(space_.inbox.size(), place.size() - tls::kRecordBytes));
  if (broken_) return {.bytes = 0, .error = kRefused};
  if (ended_) return {};
  for (unsigned i = 0; i < kCalls; ++i) {
    const ssize_t got = ::recv(socket_, inbox.data(), inbox.size(), MSG_DONTWAIT);
    if (got == 0) return {};
    const int error = got < 0 ? transfer_errno() : 0;
    if (error != 0 && error != EAGAIN) return {.bytes = 0, .error = error};
    // Before the handshake is complete, the function continues without input, because the client sends first.
    if (error != 0 && channel_->established()) {
      (void)flush();
      return {.bytes = 0, .error = EAGAIN};
    }
    const tls::Channel::Opened opened =
        channel_->open(inbox.first(error != 0 ? 0 : static_cast<std::size_t>(got)), place);
    // Sends handshake messages or an alert. Bytes that the kernel does not accept are sent with the next
    // data.
    (void)flush();
    ended_ = opened.state == tls::Channel::State::closed;
    broken_ = opened.state == tls::Channel::State::failed;
    const bool more = static_cast<std::size_t>(std::max<ssize_t>(got, 0)) == inbox.size();
    if (opened.bytes != 0) return {.bytes = opened.bytes, .error = 0, .more = more || ended_ || broken_};
    if (broken_) return {.bytes = 0, .error = kRefused};
    if (ended_) return {};
    if (!more) break;
  }
  return {.bytes = 0, .error = EAGAIN};
}

int SealedStream::flush() noexcept {
  while (!channel_->output().empty()) {
    const iwarp::Bytes output = channel_->output();
    const ssize_t taken = ::send(socket_, output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) return transfer_errno();
    channel_->sent(static_cast<std::size_t>(taken));
    if (static_cast<std::size_t>(taken) < output.size()) return EAGAIN;
  }
  return 0;
}

Transport::Moved SealedStream::send(std::span<const iwarp::Bytes> pieces, std::size_t skip) noexcept {
  if (!channel_->established()) return {.bytes = 0, .error = EAGAIN};
  Transport::Moved moved;
  while (!pieces.empty()) {
    if (sealed_ == 0) sealed_ = channel_->seal(pieces, skip);
    const bool nothing = sealed_ == 0 && channel_->output().empty();
    const int error = nothing ? kRefused : flush();
    if (error != 0) {
      if (moved.bytes == 0) moved.error = error;
      return moved;
    }
    moved.bytes += sealed_;
    advance(pieces, skip, std::exchange(sealed_, 0));
  }
  return moved;
}

void SealedStream::announce_close() noexcept {
  // No alert is sent after half a record, because it would corrupt the stream.
  if (flush() != 0) return;
  channel_->close();
  (void)flush();
}

}  // namespace rtrs::tcp
