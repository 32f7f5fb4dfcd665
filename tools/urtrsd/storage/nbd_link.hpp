// State of the connection to the NBD server of an export: whether it is connected or lost, when the next
// connection attempt is due, how long requests wait, and whether the server may have lost acknowledged
// writes. Has no clock: the caller passes the time.
#pragma once

#include <cstdint>

#include "core/proto/ids.hpp"

namespace rtrs::daemon {

class NbdLink {
 public:
  // Pause between two connection attempts.
  static constexpr Nanos kPause = 1'000'000'000;
  // If the server answers no request for this time, it counts as lost. The time is long enough for a slow
  // flush.
  static constexpr Nanos kAnswerPatience = 60'000'000'000;

  // `wait` is the time that requests wait for a lost server.
  explicit NbdLink(Nanos wait = 0) noexcept : wait_(wait) {}

  bool is_up() const noexcept { return up_; }
  void connected() noexcept {
    up_ = true;
    unanswered_ = 0;
  }
  // The connection was lost, or a connection attempt failed. Changes acknowledged since the last flush may be
  // lost.
  void lost(Nanos now) noexcept;
  // Time of the next connection attempt; kNever while connected.
  Nanos next_attempt() const noexcept { return up_ ? kNever : next_; }

  // Records that a request was sent.
  void asked(Nanos now) noexcept {
    if (unanswered_++ == 0) heard_ = now;
  }
  // Records that a request was answered.
  void answered(Nanos now) noexcept {
    if (unanswered_ != 0) --unanswered_;
    heard_ = now;
  }
  // Returns the time until which a request that cannot be sent now may wait; 0: it must fail now. All
  // requests of an outage wait until the same time. `before` is the result for this request in an earlier
  // outage, or 0; it stays valid, so that repeated outages do not extend the wait of a request.
  Nanos wait_until(Nanos now, Nanos before) const noexcept {
    const Nanos end = before != 0 ? before : down_since_ + wait_;
    return now < end ? end : 0;
  }

  // True if the server is lost for so long that requests no longer wait for it.
  bool wait_is_over(Nanos now) const noexcept { return !up_ && wait_until(now, 0) == 0; }

  // Time at which the server counts as lost unless it answers before; kNever if all requests are answered.
  Nanos lost_at() const noexcept { return up_ && unanswered_ != 0 ? heard_ + kAnswerPatience : kNever; }

  // Records that the server acknowledged a change.
  void changed() noexcept { ++changes_; }
  // Number of changes acknowledged so far. Read it when a flush begins, and pass it to flushed() when the
  // flush has succeeded.
  std::uint64_t changes() const noexcept { return changes_; }
  void flushed(std::uint64_t changes) noexcept;

  // Counts outages after which acknowledged changes may be lost. Each open of the export then fails one
  // flush, as Linux fails one fsync(2) of each open file after a failed write.
  struct Losses {
    std::uint64_t count = 0;
    bool reported = true;  // a flush has failed because of the newest outage
    // Initial value of `seen` for a new open. If no flush has reported the newest outage yet, the new open
    // has not seen this outage, so that its first flush fails.
    std::uint64_t seen_at_open() const noexcept { return reported ? count : count - 1; }
  };
  const Losses& losses() const noexcept { return losses_; }
  // Returns true if a flush must fail because of an outage that its open has not seen, and then marks all
  // outages as seen. `at_begin` is the value of `seen` when the flush was submitted, so that all flushes
  // submitted before the first failure fail too.
  bool take_loss(std::uint64_t& seen, std::uint64_t at_begin) noexcept;
  // Takes over the losses that an earlier connection to the same server recorded.
  void inherit(const Losses& losses) noexcept { losses_ = losses; }
  // True if a further flush must show that all acknowledged changes are durable.
  bool owes_flush() const noexcept { return !losses_.reported || changes_ != flushed_; }

 private:
  std::uint64_t changes_ = 0;
  std::uint64_t flushed_ = 0;  // number of changes that are durable
  std::uint64_t unanswered_ = 0;
  // Time of the last answer, or of the first request after a time without unanswered requests.
  Nanos heard_ = 0;
  Nanos next_ = 0;
  Nanos down_since_ = 0;
  Nanos wait_ = 0;
  Losses losses_;
  bool up_ = false;
};

}  // namespace rtrs::daemon
