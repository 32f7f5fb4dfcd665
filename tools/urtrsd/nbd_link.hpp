// State of the connection to an NBD server behind an export: connected or lost, time of the next attempt, how
// long requests wait, and whether the server may have lost acknowledged writes. Has no clock: the caller
// passes the time.
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

  // `wait`: how long requests wait for a server that was lost.
  explicit NbdLink(Nanos wait = 0) noexcept : wait_(wait) {}

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
  // The time until which a request waits that cannot be sent now; 0: it fails. All requests of an outage wait
  // for the same time. `before`: the time that a former outage gave to this request; 0: none. So a server
  // that is lost again and again holds no request for longer.
  Nanos wait_until(Nanos now, Nanos before) const noexcept {
    const Nanos end = before != 0 ? before : down_since_ + wait_;
    return now < end ? end : 0;
  }

  // When the server is lost unless it answers; kNever: it owes no answer.
  Nanos lost_at() const noexcept { return up_ && unanswered_ != 0 ? heard_ + kAnswerPatience : kNever; }

  // A change was acknowledged.
  void changed() noexcept { ++changes_; }
  // For flushed(), when a flush begins: it covers what was acknowledged before.
  std::uint64_t changes() const noexcept { return changes_; }
  void flushed(std::uint64_t changes) noexcept;

  // Losses of the server after which acknowledged changes may be gone. Each open of the export fails one
  // flush for them, as Linux fails one fsync(2) of each open file after a failed write.
  struct Losses {
    std::uint64_t count = 0;
    bool reported = true;  // some open failed a flush for the newest one
    // The `seen` of an open: the next open reports a loss that no other one did.
    std::uint64_t seen_at_open() const noexcept { return reported ? count : count - 1; }
  };
  const Losses& losses() const noexcept { return losses_; }
  // True if a flush has to fail whose open had `at_begin` seen when it was submitted; the open has `seen` all
  // losses then. So all flushes fail that were submitted before the first of them failed.
  bool take_loss(std::uint64_t& seen, std::uint64_t at_begin) noexcept;
  // The losses of the former connection to the same server.
  void inherit(const Losses& losses) noexcept { losses_ = losses; }
  // Only the next flush tells whether all acknowledged changes are durable.
  bool owes_flush() const noexcept { return !losses_.reported || changes_ != flushed_; }

 private:
  std::uint64_t changes_ = 0;
  std::uint64_t flushed_ = 0;  // of them
  std::uint64_t unanswered_ = 0;
  Nanos heard_ = 0;  // of the last answer, or of the first request after all were answered
  Nanos next_ = 0;
  Nanos down_since_ = 0;
  Nanos wait_ = 0;
  Losses losses_;
  bool up_ = false;
};

}  // namespace rtrs::daemon
