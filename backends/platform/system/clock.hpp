// Clock for programs that poll a driver.
#pragma once
#include <cstdint>

#include "core/proto/ids.hpp"

namespace rtrs::platform {

// Nanoseconds of std::chrono::steady_clock, for the `now` of a driver. Monotonic.
Nanos steady_now() noexcept;
// Nanoseconds since 1970 (UTC), for the origin of a trace. Not monotonic.
std::uint64_t wall_now() noexcept;

}  // namespace rtrs::platform

namespace rtrs {
using platform::steady_now;  // deprecated name, kept for one release
}
