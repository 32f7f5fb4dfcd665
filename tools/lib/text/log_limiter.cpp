#include "tools/lib/text/log_limiter.hpp"

#include <algorithm>

namespace rtrs::tools {

bool LogLimiter::allow(std::size_t kind, Nanos now) noexcept {
  Kind& one = kinds_[kind];
  if (one.lines == 0 || (one.more == 0 && now - one.begun >= kWindow)) one = {now, 0, 0};
  if (one.lines == kLines) {
    ++one.more;
    next_due_ = std::min(next_due_, one.begun + kWindow);
    return false;
  }
  ++one.lines;
  return true;
}

std::optional<LogLimiter::Summary> LogLimiter::due(Nanos now) noexcept {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    Kind& one = kinds_[i];
    if (one.more == 0 || now - one.begun < kWindow) continue;
    const Summary summary{i, one.more};
    one = Kind{};
    next_due_ = kNever;
    for (const Kind& other : kinds_)
      if (other.more != 0) next_due_ = std::min(next_due_, other.begun + kWindow);
    return summary;
  }
  return std::nullopt;
}

}  // namespace rtrs::tools
