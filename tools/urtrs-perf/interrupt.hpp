// SIGINT and SIGTERM as a number to look at.
#pragma once

namespace rtrs::perf {

void catch_signals() noexcept;
// The first signal that came, 0 while none has.
int caught_signal() noexcept;

}  // namespace rtrs::perf
