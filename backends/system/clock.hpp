// The clock of programs that poll a driver.
#pragma once
#include "core/proto/ids.hpp"

namespace rtrs {

// Nanoseconds of std::chrono::steady_clock, to be given to a driver as `now`. Never goes back.
Nanos steady_now() noexcept;

}  // namespace rtrs
