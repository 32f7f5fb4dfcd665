#include "tools/urtrsd/log_limiter.hpp"

#include <algorithm>

namespace rtrs::daemon {

bool LogLimiter::allow(std::size_t kind, Nanos now) noexcept {
  Kind& one = kinds_[kind];
  if (one.lines == 0 || (one.more == 0 && now - one.begun >= kWindow)) one = {now, 0, 0};
  if (one.lines == kLines) {
    ++one.more;
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
    return summary;
  }
  return std::nullopt;
}

Nanos LogLimiter::next_due() const noexcept {
  Nanos next = kNever;
  for (const Kind& one : kinds_)
    if (one.more != 0) next = std::min(next, one.begun + kWindow);
  return next;
}

}  // namespace rtrs::daemon
