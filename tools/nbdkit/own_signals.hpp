// Whether a signal has asked this process to end. nbdkit tells plugins by nbdkit_nanosleep(), which ends the
// process by an assertion (1.32) where the signal went to the process that nbdkit forked from: both have one
// pipe. So the handlers of nbdkit are called through one that remembers.
#pragma once

namespace rtrs::nbdkit {

// Puts the handler before those that are there for SIGTERM, SIGINT, SIGHUP and SIGQUIT; a signal without one
// stays as it is. Any number of times, from one thread.
void watch_end_signals() noexcept;
// From any thread.
bool end_signalled() noexcept;
// The handlers that were there before; for the time when this code is unloaded.
void leave_end_signals() noexcept;

}  // namespace rtrs::nbdkit
