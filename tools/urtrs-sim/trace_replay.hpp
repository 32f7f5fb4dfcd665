// Recorded runs of the simulator, run again by the machines alone.
#pragma once
#include <cstdint>
#include <string>

namespace rtrs::tools {

struct TraceReplay {
  std::uint64_t traces = 0;
  std::uint64_t records = 0;
  std::uint64_t hashes = 0;       // of states, compared
  std::uint64_t nanoseconds = 0;  // of processor time, reading the traces from memory and comparing included
  std::string different;          // not empty: the first trace that was not the same again, and why
};

// Replays the traces that a run wrote to PREFIX.*.rtrc.
TraceReplay replay_traces(const std::string& prefix);

}  // namespace rtrs::tools
