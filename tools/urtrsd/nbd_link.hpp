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

  bool is_up() const noexcept { return up_; }
  void connected() noexcept { up_ = true; }
  // The connection, or an attempt to get one, ended. What was acknowledged since the last flush may be gone.
  void lost(Nanos now) noexcept;
  // When to connect; kNever: it is connected.
  Nanos next_attempt() const noexcept { return up_ ? kNever : next_; }

  // A change was acknowledged.
  void changed() noexcept { ++changes_; }
  // For flushed(), when a flush begins: it covers what was acknowledged before.
  std::uint64_t changes() const noexcept { return changes_; }
  void flushed(std::uint64_t changes) noexcept;
  // True once after changes were lost: the next flush has to say so, as a disk's does.
  bool take_damage() noexcept;

 private:
  std::uint64_t changes_ = 0;
  std::uint64_t flushed_ = 0;  // of them
  Nanos next_ = 0;
  bool up_ = false;
  bool damaged_ = false;
};

}  // namespace rtrs::daemon
