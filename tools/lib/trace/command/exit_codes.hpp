// What every subcommand of urtrs-replay answers. Where several hold: 2 and 3 before 1, 1 before 5.
#pragma once

namespace rtrs::tools {

enum ExitCode : int {
  exit_ok = 0,     // fine, found, alike, written
  exit_bad = 1,    // the judgement is bad: diverged, violating, different, nothing found, a failure found
  exit_usage = 2,  // wrong arguments, or a file that cannot be opened or written
  exit_cannot_read = 3,  // no judgement: no trace, another version, or something that is needed is missing
  exit_not_shown = 4,    // `simulate`: something is wrong with the trace, but no world shows it
  exit_damaged = 5,      // the input is damaged or cannot be read on; what is above holds of what is sound
};

}  // namespace rtrs::tools
