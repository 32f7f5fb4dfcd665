// State of the connection to an NBD server behind an export: connected or lost, time of the next attempt, how
// long requests wait, and whether the server may have lost acknowledged writes. Has no clock: the caller
// passes the time.
#pragma once

#include <cstdint>

#include "core/proto/ids.hpp"

namespace rtrs::daemon {

class NbdLink {
 public:
  // Pause between the end of an attempt and the next attempt.
  static constexpr Nanos kPause = 1'000'000'000;
  // A server that answers no request for this time counts as lost. Long enough for a slow flush.
  static constexpr Nanos kAnswerPatience = 60'000'000'000;

  // `wait`: time that requests wait for a lost server.
  explicit NbdLink(Nanos wait = 0) noexcept : wait_(wait) {}

  bool is_up() const noexcept { return up_; }
  void connected() noexcept {
    up_ = true;
    unanswered_ = 0;
  }
  // The connection or a connection attempt ended. Changes acknowledged since the last flush may be lost.
  void lost(Nanos now) noexcept;
  // Time of the next connection attempt; kNever while connected.
  Nanos next_attempt() const noexcept { return up_ ? kNever : next_; }

  // A request was sent.
  void asked(Nanos now) noexcept {
    if (unanswered_++ == 0) heard_ = now;
  }
  // A request was answered.
  void answered(Nanos now) noexcept {
    if (unanswered_ != 0) --unanswered_;
    heard_ = now;
  }
  // Time until which a request that cannot be sent now waits; 0: the request fails. All requests of an outage
  // wait until the same time. `before`: result for this request in an earlier outage; 0: none. That result
  // stays valid, so that repeated outages do not extend the wait of a request.
  Nanos wait_until(Nanos now, Nanos before) const noexcept {
    const Nanos end = before != 0 ? before : down_since_ + wait_;
    return now < end ? end : 0;
  }

  // Time at which the server counts as lost if it does not answer; kNever if no request is unanswered.
  Nanos lost_at() const noexcept { return up_ && unanswered_ != 0 ? heard_ + kAnswerPatience : kNever; }

  // The server acknowledged a change.
  void changed() noexcept { ++changes_; }
  // Value to pass to flushed(), read when the flush begins: the flush covers the changes acknowledged before.
  std::uint64_t changes() const noexcept { return changes_; }
  void flushed(std::uint64_t changes) noexcept;

  // Outages after which acknowledged changes may be lost. Each open of the export fails one flush for them,
  // as Linux fails one fsync(2) of each open file after a failed write.
  struct Losses {
    std::uint64_t count = 0;
    bool reported = true;  // an open failed a flush for the newest outage
    // Initial value of `seen` for a new open. It does not count a newest outage that no open has reported
    // yet, so that the new open reports it.
    std::uint64_t seen_at_open() const noexcept { return reported ? count : count - 1; }
  };
  const Losses& losses() const noexcept { return losses_; }
  // Returns true if a flush must fail, and marks all outages as seen by its open. `at_begin`: value of `seen`
  // when the flush was submitted, so that all flushes submitted before the first failure fail.
  bool take_loss(std::uint64_t& seen, std::uint64_t at_begin) noexcept;
  // Takes over the outages of an earlier connection to the same server.
  void inherit(const Losses& losses) noexcept { losses_ = losses; }
  // True if only another flush can show that all acknowledged changes are durable.
  bool owes_flush() const noexcept { return !losses_.reported || changes_ != flushed_; }

 private:
  std::uint64_t changes_ = 0;
  std::uint64_t flushed_ = 0;  // changes that are durable
  std::uint64_t unanswered_ = 0;
  Nanos heard_ = 0;  // time of the last answer, or of the first request after all earlier ones were answered
  Nanos next_ = 0;
  Nanos down_since_ = 0;
  Nanos wait_ = 0;
  Losses losses_;
  bool up_ = false;
};

}  // namespace rtrs::daemon
