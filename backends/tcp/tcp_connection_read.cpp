// The receiving half of a connection.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "backends/tcp/tcp_connection.hpp"
#include "backends/tcp/tcp_status.hpp"
#include "core/base/overloaded.hpp"

namespace rtrs::tcp {
namespace {

// Payload that is missing from so many octets on is received straight to its place.
constexpr std::size_t kDirectBytes = 8U << 10U;
// What is received behind it, and at once where large payload comes: more would have to be copied.
constexpr std::size_t kSpillBytes = 16U << 10U;
// Calls of one connection before it is another's turn.
constexpr unsigned kCallsPerPoll = 4;

}  // namespace

iwarp::Fault Connection::resolve(std::uint32_t key, std::uint64_t to, std::size_t n,
                                 iwarp::MutableBytes& place) noexcept {
  return around_.memory.resolve(key_, key, to, n, place);
}

std::optional<iwarp::MutableBytes> Connection::take_receive() noexcept {
  return receives_.take();
}

iwarp::Fault Connection::invalidate(std::uint32_t key) noexcept {
  return around_.memory.end_by_peer(key_, key);
}

void Connection::post_receives(unsigned count, std::uint32_t bytes_each) noexcept {
  try {
    for (; count != 0; --count) receives_.post(bytes_each);
  } catch (const std::bad_alloc&) {
    // The peer's messages wait for it, as for one that was never posted.
  }
  if (!stream_.stalled()) return;
  receive_by_ = kNever;
  more_ = true;
}

Line::Moved Connection::receive_direct(iwarp::MutableBytes place, iwarp::MutableBytes behind) noexcept {
  std::array<iovec, 2> parts{};
  parts[0] = {.iov_base = place.data(), .iov_len = place.size()};
  parts[1] = {.iov_base = behind.data(), .iov_len = behind.size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  ++around_.stats.receive_calls;
  const ssize_t got = ::recvmsg(socket.get(), &message, MSG_DONTWAIT);
  const auto bytes = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  if (got >= 0) return {.bytes = bytes, .error = 0, .dry = bytes < place.size() + behind.size()};
  return {.bytes = 0, .error = errno == EWOULDBLOCK || errno == EINTR ? EAGAIN : errno};
}

bool Connection::receive(Read& result, iwarp::Events& list) noexcept {
  const iwarp::MutableBytes inbox = around_.inbox;
  const iwarp::MutableBytes place = socket.straight() ? stream_.wants() : iwarp::MutableBytes{};
  const bool direct = place.size() > kDirectBytes;
  const std::size_t behind = socket.straight() && (direct || bulk_) ? kSpillBytes : inbox.size();
  const Line::Moved got = direct ? receive_direct(place, inbox.first(behind))
                                 : socket.receive(inbox.first(behind), around_.stats.receive_calls);
  if (got.bytes == 0) {
    if (got.error == EAGAIN) return false;
    end_by(got.error);
    result.ended = true;
    return false;
  }
  result.received = true;
  const std::size_t placed = direct ? std::min(got.bytes, place.size()) : 0;
  short_ = got.dry;
  if (placed != 0) stream_.placed(placed, *this, list);
  left_ = iwarp::Bytes(inbox.data(), got.bytes - placed);
  return true;
}

std::size_t Connection::translate(std::span<const iwarp::Event> list, std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  for (const iwarp::Event& one : list) {
    if (const auto* immediate = std::get_if<iwarp::Immediate>(&one)) {
      out[count++] = event::ImmReceived{key_, immediate->imm};
    } else if (const auto* message = std::get_if<iwarp::Message>(&one)) {
      out[count++] = event::MessageReceived{key_, message->imm, message->payload};
    } else if (const auto* gone = std::get_if<iwarp::Invalidated>(&one)) {
      out[count++] = event::KeyInvalidated{key_, gone->key};
    } else if (std::holds_alternative<iwarp::Greeted>(one)) {
      greeting_by_ = kNever;
    } else if (const auto* violated = std::get_if<iwarp::Violated>(&one)) {
      end(Reason::protocol_violation, to_string(violated->fault));
    } else if (const auto* last = std::get_if<iwarp::PeerTerminated>(&one)) {
      ++around_.stats.terminated;
      end(Reason::transport_error,
          "the peer ended it by a Terminate message " + std::to_string(last->code.layer) + '/' +
              std::to_string(last->code.type) + '/' + std::to_string(last->code.code));
    }
  }
  return count;
}

// The inbox is shared: what the stream did not take goes into memory of the connection.
void Connection::keep_rest() noexcept {
  const std::byte* const own = left_store_.data();
  if (left_.empty() || (left_.data() >= own && left_.data() < own + left_store_.size())) return;
  try {
    left_store_.assign(left_.begin(), left_.end());
    left_ = left_store_;
  } catch (const std::bad_alloc&) {
    left_ = {};
    end_reason_ = Reason::no_resources;
  }
}

void Connection::note_stall() noexcept {
  if (stream_.stalled() && receive_by_ == kNever) {
    receive_by_ = clock_now() + milliseconds(around_.options.receive_timeout_ms);
    around_.poller.wake_at(receive_by_);
  } else if (!stream_.stalled()) {
    receive_by_ = kNever;
  }
  update_interest();
}

Connection::Read Connection::read(std::span<FabricEvent> out) noexcept {
  Read result;
  const bool was_stalled = stream_.stalled();
  bool ask_again = was_stalled;
  unsigned calls = kCallsPerPoll;
  more_ = false;
  while (result.events < out.size()) {
    iwarp::Events list(around_.list.first(std::min(around_.list.size(), out.size() - result.events)));
    if (left_.empty() && !again_ && !ask_again) {
      if (calls-- == 0) {
        more_ = true;
        break;
      }
      if (!receive(result, list)) break;
    }
    const std::size_t offered = left_.size();
    if (!list.full()) left_ = left_.subspan(stream_.feed(left_, *this, list));
    again_ = list.full();
    ask_again = false;
    result.events += translate(list.all(), out.subspan(result.events));
    if (stream_.ended() && !again_) {
      left_ = {};
      result.ended = true;
      break;
    }
    if (stream_.stalled()) break;
    // Many messages that are nothing: the others come first.
    if (list.all().empty() && !left_.empty() && offered != 0) break;
    if (left_.empty() && !again_) {
      if (bulk_ && !short_ && stream_.wants().size() <= kDirectBytes) bulk_ = false;
      if (stream_.wants().size() > kDirectBytes) bulk_ = true;
      if (short_) break;
    }
  }
  keep_rest();
  more_ = more_ || again_ || (!left_.empty() && !stream_.stalled());
  if (was_stalled || stream_.stalled()) note_stall();
  if (end_reason_ == Reason::no_resources) result.ended = true;
  result.more = more_;
  return result;
}

}  // namespace rtrs::tcp
