// What every subcommand of urtrs-replay answers.
#pragma once

namespace rtrs::tools {

enum ExitCode : int {
  exit_ok = 0,
  exit_bad_trace = 1,    // the judgement is bad: diverged, violating, different, damaged
  exit_usage = 2,        // wrong arguments, or a file that cannot be opened
  exit_cannot_read = 3,  // no judgement: no trace, another version, or something that is needed is missing
};

}  // namespace rtrs::tools
