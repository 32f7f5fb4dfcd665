// The shortest part of a recorded run on which the core still fails. Inputs are taken away, the core says
// what it does then, and what can no longer happen goes with them (ClientPlayer, ServerPlayer).
//
// Failing means one of two things. Without a reference: the core of this program breaks one of its invariants
// or stops. With a reference, another build of urtrs-replay: the two do different things on the same inputs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/minimize/machine_trace.hpp"

namespace rtrs::tool {

struct MinimizeOptions {
  std::string reference;  // a command; empty: none
  std::string directory;  // for candidates; exists and is writable
  double seconds = 60;    // at most
  std::function<void(std::size_t inputs, std::uint64_t runs)> progress;  // may be empty
};

struct Minimized {
  bool fails = false;       // else there is nothing to make smaller
  std::string failure;      // in words
  InstanceId instance = 0;  // of the machine that fails
  std::string file;         // the shortest trace, in MinimizeOptions::directory; actions of this core
  std::uint64_t inputs_before = 0, inputs = 0;  // of that machine
  std::uint64_t records = 0;                    // of the shortest trace
  std::uint64_t runs = 0;
  double seconds = 0;
  bool complete = false;  // nothing more can be taken away; else time was over
  std::string error;      // not empty: nothing could be tried
};
Minimized minimize(const LoadedTrace&, const MinimizeOptions&);

// Writes what the core of this program does on the inputs `kept` of the machine, of which it leaves out the
// impossible ones.
struct Written {
  int error = 0;  // positive errno
  std::uint64_t records = 0;
  const char* broken = nullptr;  // the invariant that the last input broke
};
struct WriteHooks {
  // Told of each input, and of its record in the file, before the core gets it: the core may stop the
  // program.
  std::function<void(std::uint32_t input, std::uint64_t record)> before;
  // This input is written and not fed, and it is the last: the one that stops the core.
  std::uint32_t stop_at = ~std::uint32_t{0};
};
Written write_run(const MachineTrace&, const std::vector<std::uint32_t>& kept, const std::string& path,
                  const WriteHooks& = {});

}  // namespace rtrs::tool
