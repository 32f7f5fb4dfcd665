// Records whether a signal has asked this process to end. nbdkit would report such a signal through
// nbdkit_nanosleep(), but in nbdkit 1.32 this call fails an assertion if the parent of the fork received the
// signal, because both processes share one pipe. Therefore handlers that set a flag are installed in front of
// the handlers of nbdkit.
#pragma once

namespace rtrs::nbdkit {

// Installs a handler in front of the existing handlers of SIGTERM, SIGINT, SIGHUP and SIGQUIT. Signals
// without a handler are not changed. May be called repeatedly, always from the same thread.
void watch_end_signals() noexcept;
// Thread-safe.
bool end_signalled() noexcept;
// Restores the previous handlers. Must be called before this code is unloaded.
void leave_end_signals() noexcept;

}  // namespace rtrs::nbdkit
