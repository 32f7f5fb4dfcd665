// Clock for programs that poll a driver.
#pragma once
#include "core/proto/ids.hpp"

namespace rtrs {

// Nanoseconds of std::chrono::steady_clock, for the `now` of a driver. Monotonic.
Nanos steady_now() noexcept;

}  // namespace rtrs
