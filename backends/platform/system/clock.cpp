#include "backends/platform/system/clock.hpp"

#include <chrono>

namespace rtrs::platform {

Nanos steady_now() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<Nanos>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::uint64_t wall_now() noexcept {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace rtrs::platform
