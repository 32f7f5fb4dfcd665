// Limits the rate of log lines, separately for each kind of line. Lines above the limit are counted instead
// of written. Reads no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/proto/ids.hpp"

namespace rtrs::tools {

class LogLimiter {
 public:
  static constexpr std::uint32_t kLines = 20;  // limit for one kind in one window
  static constexpr Nanos kWindow = seconds(10);

  struct Summary {
    std::size_t kind = 0;
    std::uint64_t more = 0;  // number of lines that were counted but not written
  };

  explicit LogLimiter(std::size_t kinds) : kinds_(kinds) {}

  // Returns true if a line of this kind may be written at `now`; otherwise counts the line. The first line
  // begins a window. Call due() first, so that the summary of a window is written before the lines of the
  // next window.
  bool allow(std::size_t kind, Nanos now) noexcept;
  // Returns the summary of a window that has ended and in which lines were counted; nullopt if there is none.
  // Returns each summary once, so call due() until it returns nullopt.
  std::optional<Summary> due(Nanos now) noexcept;
  // Like due(), but also returns the summaries of windows that have not ended. Call it at the end of the
  // program.
  std::optional<Summary> rest() noexcept { return due(kNever); }
  // Earliest time at which due() returns a summary; kNever if no line was counted.
  Nanos next_due() const noexcept { return next_due_; }

 private:
  struct Kind {
    Nanos begun = 0;
    std::uint32_t lines = 0;  // number of lines written in this window; 0: no window
    std::uint64_t more = 0;
  };
  std::vector<Kind> kinds_;
  Nanos next_due_ = kNever;
};

}  // namespace rtrs::tools
