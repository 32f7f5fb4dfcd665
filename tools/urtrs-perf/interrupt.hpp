// Records SIGINT and SIGTERM.
#pragma once

namespace rtrs::perf {

void catch_signals() noexcept;
// Returns the first signal that was received; 0: none.
int caught_signal() noexcept;

}  // namespace rtrs::perf
