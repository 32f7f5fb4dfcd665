// Replays recorded runs of the simulator with the protocol state machines only.
#pragma once
#include <cstdint>
#include <string>

namespace rtrs::sim_tool {

struct TraceReplay {
  std::uint64_t traces = 0;
  std::uint64_t records = 0;
  std::uint64_t hashes = 0;       // number of compared state hashes
  std::uint64_t nanoseconds = 0;  // processor time, including reading and comparing
  std::string different;          // first trace whose replay differs, and why; empty: none
};

// Replays the traces that a run wrote to PREFIX.*.rtrc.
TraceReplay replay_traces(const std::string& prefix);

}  // namespace rtrs::sim_tool
