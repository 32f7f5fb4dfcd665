// The shortest part of a recorded run that still fails as the whole one does.
//
// How it fails is looked for in this order, where nothing else is asked for:
//  - the core of this program, run again on the inputs of one machine, stops, breaks one of its invariants,
//  or
//    does what the specification forbids. Inputs are taken away, and what can no longer happen without them;
//  - the trace is of another core: this one does something else. The steps before are thinned out, the one
//    that differs is kept (LastStep);
//  - the specification objects to what was recorded. Records are taken away.
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
    invariant,  // the core stops or breaks an invariant
    check,      // that, or the specification objects
    replay,     // this core does something else than was recorded
  };
  Looks looks = Looks::all;
  Judge judge;            // of what this core does, instead of the specification; may be empty
  std::string directory;  // for candidates; exists and is writable
  double seconds = 60;    // at most
  bool hashes = false;    // write the state after every input
  std::function<void(std::size_t left, std::uint64_t runs)> progress;  // may be empty
};

struct Minimized {
  bool fails = false;       // else there is nothing to make smaller
  std::string failure;      // in words, without what changes from run to run
  std::string seen;         // in words, of the shortest trace
  InstanceId instance = 0;  // of the machine that fails
  bool recorded = false;    // the last step is as another core took it, or all records are as they were
  std::string file;         // the shortest trace, in MinimizeOptions::directory
  std::uint64_t records_before = 0, records = 0;
  std::uint64_t inputs_before = 0, inputs = 0;  // of that machine; 0 where records were taken away
  std::string damage;  // where and why the trace can be read no further; empty: it is whole
  std::uint64_t runs = 0;
  double seconds = 0;
  bool complete = false;  // nothing more can be taken away; else time was over
  std::string error;      // not empty: there is no judgement, and why
};
// `trace` is a whole file.
Minimized minimize(std::string_view trace, const MinimizeOptions&);

}  // namespace rtrs::tools
