// Reports the outcome of after_fork to the process that nbdkit forked from.
//
// nbdkit forks between get_ready and after_fork, either into the background or away from the command of
// --run. Threads and sockets do not survive a fork, so the device can be opened only in after_fork, when the
// user already has an exit status and the command already waits for the socket. Therefore the parent waits
// inside fork() until the child reports whether the device is open. If the device is not open, the parent
// prints the reason and exits with status 1, before --run starts its command.
#pragma once
#include <string>

#include "core/proto/ids.hpp"

namespace rtrs::nbdkit {

// Call it in get_ready. The next fork() then waits in the parent, at most `bound`. Returns 0 or an errno. In
// the parent, `print` receives the reason of a failure, and `asked_to_end` is polled for a signal.
int await_start_in_fork(Nanos bound, void (*print)(const char* why), bool (*asked_to_end)());

// True if the waiting parent received a signal or has exited, so the start should be cancelled; false if
// nbdkit did not fork. Call it between the fork and report_start(), in the thread that calls report_start().
bool starter_ends();

// Call it once in after_fork; an empty `why` means success. Returns true if the waiting parent prints `why`;
// false if the caller has to print it, because nbdkit did not fork.
bool report_start(const std::string& why);

}  // namespace rtrs::nbdkit
