// Finds the shortest part of a recorded run that fails like the whole run.
//
// If the options do not select a kind of failure, three kinds are searched for, in this order:
//  - Rerun: the protocol core of this program ("this core"), run again on the inputs of one machine, crashes,
//    breaks an invariant, or violates the specification. Inputs are removed, together with inputs that become
//    impossible.
//  - Different core: this core takes other actions than the recorded ones. Inputs before the different step
//    are removed, and the different step is kept (LastStep).
//  - Recorded violation: the recorded trace violates the specification. Records are removed.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lib/trace/minimize/judges.hpp"
#include "tools/lib/trace/minimize/run_writer.hpp"

namespace rtrs::tools {

struct MinimizeOptions {
  enum class Looks : std::uint8_t {
    all,
    invariant,  // the core crashes or breaks an invariant
    check,      // the core crashes, breaks an invariant, or violates the specification
    replay,     // this core differs from the recording
  };
  Looks looks = Looks::all;
  Judge judge;            // used on reruns instead of the specification; may be empty
  std::string directory;  // folder for candidate files; must exist and be writable
  double seconds = 60;    // time limit
  bool hashes = false;    // write state hashes to the result
  std::function<void(std::size_t left, std::uint64_t runs)> progress;  // may be empty
};

struct Minimized {
  bool fails = false;       // false: no failure was found
  std::string failure;      // failure text without details that differ between runs
  std::string seen;         // details of the failure of the shortest trace
  InstanceId instance = 0;  // machine that fails
  bool recorded = false;    // the last step (or every record) was copied from the recording, not rerun
  std::string file;         // the shortest trace, in MinimizeOptions::directory
  std::uint64_t records_before = 0, records = 0;
  std::uint64_t inputs_before = 0, inputs = 0;  // number of inputs of that machine; 0 if records were removed
  std::string damage;  // position and reason at which reading stopped; empty: complete
  std::uint64_t runs = 0;
  double seconds = 0;
  bool complete = false;  // nothing more can be removed; false: time ran out
  std::string error;      // reason why there is no result; empty if there is one
};
// `trace`: the bytes of a trace file.
Minimized minimize(std::string_view trace, const MinimizeOptions&);

}  // namespace rtrs::tools
