// Reports the outcome of after_fork to the process that nbdkit forked from.
//
// nbdkit forks between get_ready and after_fork, either into the background or away from the command of
// --run. Threads and sockets do not survive a fork, so the device can be opened only in after_fork, when the
// user already has an exit status and the command already waits for the socket. StartReport keeps the process
// that forked inside fork() until the other one tells whether the device is open. If it is not, the process
// prints the reason and exits with status 1, before --run starts its command.
#pragma once
#include <string>

#include "core/proto/ids.hpp"

namespace rtrs::nbdkit {

// Call in get_ready. From here on the next fork() waits, at most `bound`. 0 or an errno. `print` gets the
// reason in the process that waited; `asked_to_end` is asked there whether a signal wants its end.
int await_start_in_fork(Nanos bound, void (*print)(const char* why), bool (*asked_to_end)());

// Whether the process that waits is asked to end, or is gone: there is nobody to start for. Between the fork
// and report_start(), on the thread that calls that; false where nbdkit did not fork.
bool starter_ends();

// Call once in after_fork; an empty `why` is a success. True when another process waits and prints `why`;
// false when nbdkit did not fork and the caller has to print it.
bool report_start(const std::string& why);

}  // namespace rtrs::nbdkit
