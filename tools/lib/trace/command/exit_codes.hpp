// Exit codes of all subcommands of urtrs-replay. If several apply, 2 and 3 take precedence over 1, and 1
// over 5.
#pragma once

namespace rtrs::tools {

enum ExitCode : int {
  exit_ok = 0,           // success: conforming, found, equal or written
  exit_bad = 1,          // negative result: diverged, violating, different, nothing found, or a failure found
  exit_usage = 2,        // wrong arguments, or a file that cannot be opened or written
  exit_cannot_read = 3,  // no result: not a trace, another version, or required data is missing
  exit_not_reproduced = 4,  // `simulate`: the trace has a failure, but no simulated world reproduces it
  exit_damaged = 5,  // input damaged or unreadable from some point on; the result is for the part before
};

}  // namespace rtrs::tools
