// Room in the send queue of one connection, and the choice of which work requests are signalled. Only
// signalled completions free entries: each retires itself and the unsignalled ones before it. A value type.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/limits.hpp"

namespace rtrs {

class SendQueue {
 public:
  // Maximum number of entries of one response: data, invalidation, response.
  static constexpr unsigned kMaxBatch = 3;

  // Resets the queue for a new connection with room for `depth` work requests (at least 8).
  void open(unsigned depth) noexcept {
    RTRS_ASSERT(depth >= 8);
    room_ = depth_ = static_cast<std::uint16_t>(std::min(depth, 0xffffU));
    unsignalled_ = 0;
  }
  // True if a request, response or control message may take `entries`; keeps entries free for heartbeats.
  bool has_room(unsigned entries) const noexcept { return room_ >= entries + kHeartbeatReserve; }
  bool has_heartbeat_room() const noexcept { return room_ >= 1; }

  // Takes entries and returns the cookie of the last one: 0 (unsignalled), or the value for retire(). Signals
  // often enough that the queue never fills with unsignalled work.
  std::uint64_t take(unsigned entries) noexcept {
    RTRS_ASSERT(entries >= 1 && room_ >= entries);
    room_ = static_cast<std::uint16_t>(room_ - entries);
    unsignalled_ = static_cast<std::uint16_t>(unsignalled_ + entries);
    if (unsignalled_ < depth_ / 4 && room_ >= depth_ / 2) return 0;
    const unsigned retired = unsignalled_;
    unsignalled_ = 0;
    return retired;
  }
  // Like take() for one entry that is always signalled.
  std::uint64_t take_signalled() noexcept {
    RTRS_ASSERT(room_ >= 1);
    --room_;
    return static_cast<std::uint64_t>(std::exchange(unsignalled_, std::uint16_t{0})) + 1;
  }
  // Returns false if take() cannot have returned the cookie, because the entries would exceed the queue.
  [[nodiscard]] bool retire(std::uint64_t cookie) noexcept {
    if (cookie == 0 || cookie > static_cast<unsigned>(depth_ - room_ - unsignalled_)) return false;
    room_ = static_cast<std::uint16_t>(room_ + cookie);
    return true;
  }
  // True if everything that was posted has completed.
  bool all_done() const noexcept { return room_ == depth_; }
  bool idle() const noexcept { return room_ + unsignalled_ == depth_; }

  bool operator==(const SendQueue&) const = default;
  RTRS_FIELDS(depth_, room_, unsignalled_)

 private:
  std::uint16_t depth_ = 0;
  std::uint16_t room_ = 0;
  std::uint16_t unsignalled_ = 0;
};
static_assert(SendQueue::kMaxBatch + kHeartbeatReserve < 8);

}  // namespace rtrs
