// How many lines of one kind the log takes before it only counts them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/proto/ids.hpp"

namespace rtrs::tools {

class LogLimiter {
 public:
  static constexpr std::uint32_t kLines = 20;  // of one kind in one window
  static constexpr Nanos kWindow = seconds(10);

  struct Summary {
    std::size_t kind = 0;
    std::uint64_t more = 0;  // lines that were counted instead of written
  };

  explicit LogLimiter(std::size_t kinds) : kinds_(kinds) {}

  // A line of kind `kind` comes at `now`. False: it is counted only. A window begins with its first line;
  // call due() before, so that a count is told before the lines of the next window.
  bool allow(std::size_t kind, Nanos now) noexcept;
  // A window that has ended and counted lines; to be told once. Call it until there is none.
  std::optional<Summary> due(Nanos now) noexcept;
  // As due(), of a window that has not ended too: for the end of the program.
  std::optional<Summary> rest() noexcept { return due(kNever); }
  // When due() has something at the latest; kNever: nothing was counted.
  Nanos next_due() const noexcept { return next_due_; }

 private:
  struct Kind {
    Nanos begun = 0;
    std::uint32_t lines = 0;  // written in this window; 0: no window
    std::uint64_t more = 0;
  };
  std::vector<Kind> kinds_;
  Nanos next_due_ = kNever;
};

}  // namespace rtrs::tools
