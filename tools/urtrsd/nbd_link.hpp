// What is known of an NBD server behind an export: whether it can be reached, when to try again, and whether
// it may have lost what it had acknowledged. Pure: time comes in.
#pragma once

#include <cstdint>

#include "core/proto/ids.hpp"

namespace rtrs::daemon {

class NbdLink {
 public:
  // Between the end of an attempt and the next one.
  static constexpr Nanos kPause = 1'000'000'000;
  // A server that answers none of its requests for this time is lost. Long enough for a slow flush.
  static constexpr Nanos kAnswerPatience = 60'000'000'000;

  bool is_up() const noexcept { return up_; }
  void connected() noexcept {
    up_ = true;
    unanswered_ = 0;
  }
  // The connection, or an attempt to get one, ended. What was acknowledged since the last flush may be gone.
  void lost(Nanos now) noexcept;
  // When to connect; kNever: it is connected.
  Nanos next_attempt() const noexcept { return up_ ? kNever : next_; }

  // A request was sent, and one was answered.
  void asked(Nanos now) noexcept {
    if (unanswered_++ == 0) heard_ = now;
  }
  void answered(Nanos now) noexcept {
    if (unanswered_ != 0) --unanswered_;
    heard_ = now;
  }
  // When the server is lost unless it answers; kNever: it owes no answer.
  Nanos lost_at() const noexcept { return up_ && unanswered_ != 0 ? heard_ + kAnswerPatience : kNever; }

  // A change was acknowledged.
  void changed() noexcept { ++changes_; }
  // For flushed(), when a flush begins: it covers what was acknowledged before.
  std::uint64_t changes() const noexcept { return changes_; }
  void flushed(std::uint64_t changes) noexcept;
  // True once after changes were lost: the next flush has to say so, as a disk's does.
  bool take_damage() noexcept;
  // Changes of before this connection were lost, and nobody was told.
  void inherit_damage() noexcept { damaged_ = true; }
  // Only the next flush tells whether all that was acknowledged is durable.
  bool owes_flush() const noexcept { return damaged_ || changes_ != flushed_; }

 private:
  std::uint64_t changes_ = 0;
  std::uint64_t flushed_ = 0;  // of them
  std::uint64_t unanswered_ = 0;
  Nanos heard_ = 0;  // of the last answer, or of the first request after all were answered
  Nanos next_ = 0;
  bool up_ = false;
  bool damaged_ = false;
};

}  // namespace rtrs::daemon
