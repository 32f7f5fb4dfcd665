// Records whether a signal requested the end of this process. nbdkit reports that through nbdkit_nanosleep().
// In nbdkit 1.32 that call fails an assertion if the signal went to the parent of the fork, because both
// processes share one pipe. Therefore a handler that sets a flag is installed in front of the handlers of
// nbdkit.
#pragma once

namespace rtrs::nbdkit {

// Installs the handler in front of the existing handlers of SIGTERM, SIGINT, SIGHUP and SIGQUIT; signals
// without a handler are not changed. May be called repeatedly, from one thread.
void watch_end_signals() noexcept;
// Thread-safe.
bool end_signalled() noexcept;
// Restores the previous handlers. Required before this code is unloaded.
void leave_end_signals() noexcept;

}  // namespace rtrs::nbdkit
