// Reports the outcome of after_fork to the process that nbdkit forked from.
//
// nbdkit forks between get_ready and after_fork, either into the background or away from the command of
// --run. Threads and sockets do not survive a fork, so the device can be opened only in after_fork. Without
// further measures, the user would already have an exit status by then, and the command would already wait
// for the socket. Therefore the parent waits inside fork() until the child reports whether the device is
// open. If it is not, the parent prints the reason and exits with status 1, before --run starts the command.
#pragma once
#include <string>

#include "core/proto/ids.hpp"

namespace rtrs::nbdkit {

// Call it in get_ready. The parent then waits in the next fork(), at most `bound`, for the report of the
// child. Returns 0 or an errno. In the parent, `print` receives the reason if the start failed, and
// `asked_to_end` is polled to find out whether a signal has arrived.
int await_start_in_fork(Nanos bound, void (*print)(const char* why), bool (*asked_to_end)());

// True if the parent that waits for the report has received a signal or has exited, so that the start should
// be cancelled. False if nbdkit did not fork. Call it between the fork and report_start(), in the same thread
// as report_start().
bool starter_ends();

// Call it once in after_fork. `why` is empty if the start succeeded. Returns true if the waiting parent
// prints `why`; false if nbdkit did not fork, so that the caller has to print it.
bool report_start(const std::string& why);

}  // namespace rtrs::nbdkit
