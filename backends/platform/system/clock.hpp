// Clock for programs that poll a driver.
#pragma once
#include "core/proto/ids.hpp"

namespace rtrs::platform {

// Nanoseconds of std::chrono::steady_clock, for the `now` of a driver. Monotonic.
Nanos steady_now() noexcept;

}  // namespace rtrs::platform

namespace rtrs {
using platform::steady_now;  // deprecated name, kept for one release
}
