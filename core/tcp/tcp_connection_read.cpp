// The receiving half of a connection.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/base/overloaded.hpp"
#include "core/tcp/tcp_connection.hpp"
#include "core/tcp/tcp_status.hpp"

namespace rtrs::tcp {
namespace {

// If at least this many bytes of payload are missing, they are received directly into their destination.
constexpr std::size_t kDirectBytes = 8U << 10U;
// Maximum number of bytes received after such payload, and per call while large payload arrives. Further
// bytes would have to be copied.
constexpr std::size_t kSpillBytes = 16U << 10U;
// Maximum number of receive calls per connection and turn.
constexpr unsigned kCallsPerPoll = 4;

}  // namespace

iwarp::Fault Connection::resolve(std::uint32_t key, std::uint64_t to, std::size_t n,
                                 iwarp::MutableBytes& place) noexcept {
  return fabric_parts_.memory.resolve(key_, key, to, n, place);
}

std::optional<iwarp::MutableBytes> Connection::take_receive() noexcept {
  return receives_.take();
}

iwarp::Fault Connection::invalidate(std::uint32_t key) noexcept {
  return fabric_parts_.memory.invalidate_by_peer(key_, key);
}

void Connection::post_receives(unsigned count, std::uint32_t bytes_each) noexcept {
  try {
    for (; count != 0; --count) receives_.post(bytes_each);
  } catch (const std::bad_alloc&) {
    // There is no memory for the receive: the peer's messages wait, as if no receive had been posted.
  }
  if (!stream_.stalled()) return;
  receive_by_ = kNever;
  more_ = true;
}

bool Connection::receive(Read& result, iwarp::Events& list) noexcept {
  const iwarp::MutableBytes inbox = fabric_parts_.inbox;
  const iwarp::MutableBytes place = stream_.wants();
  const bool direct = !sealed_ && place.size() > kDirectBytes;
  const std::size_t behind = direct || (bulk_ && !sealed_) ? kSpillBytes : inbox.size();
  const iwarp::MutableBytes straight = direct ? place : iwarp::MutableBytes{};
  ++fabric_parts_.stats.receive_calls;
  const auto [size, error, more] =
      fabric_parts_.poller.transport().receive(socket.get(), straight, inbox.first(behind));
  if (size == 0) {
    if (error == EAGAIN) return false;
    end_by(error);
    result.ended = true;
    return false;
  }
  result.received = true;
  received_ += size;
  const std::size_t placed = std::min(size, straight.size());
  short_ = size < straight.size() + behind && !more;
  if (placed != 0) stream_.placed(placed, *this, list);
  left_ = iwarp::Bytes(inbox.data(), size - placed);
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
      ++fabric_parts_.stats.terminated;
      end(Reason::transport_error,
          "the peer ended it by a Terminate message " + std::to_string(last->code.layer) + '/' +
              std::to_string(last->code.type) + '/' + std::to_string(last->code.code));
    }
  }
  return count;
}

// The inbox is shared, so bytes that the stream did not consume are moved to the connection's memory.
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
    receive_by_ = fabric_parts_.poller.now() + milliseconds(fabric_parts_.options.receive_timeout_ms);
    fabric_parts_.poller.wake_at(receive_by_);
  } else if (!stream_.stalled()) {
    receive_by_ = kNever;
  }
  update_interest();
}

// Starts a time limit for the rest of an incomplete message. When it expires, is_cut_off() reports a lost
// peer only if nothing was received in the meantime; otherwise it starts a new time limit.
void Connection::expect_rest() noexcept {
  if (rest_by_ != kNever || fabric_parts_.options.undelivered_timeout_ms == 0) return;
  rest_mark_ = received_;
  rest_by_ = fabric_parts_.poller.now() + milliseconds(fabric_parts_.options.undelivered_timeout_ms);
  fabric_parts_.poller.wake_at(rest_by_);
}

bool Connection::is_cut_off(Nanos now) noexcept {
  if (rest_by_ > now) return false;
  rest_by_ = kNever;
  if (!mid_message()) return false;
  if (received_ == rest_mark_ && !stalled()) return true;
  expect_rest();
  return false;
}

Connection::Read Connection::read(std::span<FabricEvent> out) noexcept {
  Read result;
  const bool was_stalled = stream_.stalled();
  bool ask_again = was_stalled;
  unsigned calls = kCallsPerPoll;
  more_ = false;
  while (result.events < out.size()) {
    iwarp::Events list(
        fabric_parts_.list.first(std::min(fabric_parts_.list.size(), out.size() - result.events)));
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
    // After many FPDUs without an event, the other connections get their turn.
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
  if (mid_message()) expect_rest();
  if (end_reason_ == Reason::no_resources) result.ended = true;
  result.more = more_;
  return result;
}

}  // namespace rtrs::tcp
