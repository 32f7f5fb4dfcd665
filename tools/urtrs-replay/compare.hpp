// Compares two traces: byte by byte (exact), by events (canonical), or by the states of paths, links and
// sessions (state). Reads both at the same time and holds only steps that the other trace has not reached.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rtrs::replay_tool {

enum class CompareMode : std::uint8_t {
  exact,      // all records, with time and machine
  canonical,  // inputs and actions of each machine, without times; handles are numbered by first use
  state,      // states of paths, links and sessions of each machine
};

struct Difference {
  bool found = false;
  std::string thread;  // kind and number of the machine, such as "ClientSession 0"; exact: empty
  // The first steps that differ; the text is empty if a trace has no more steps.
  std::string a, b;
  std::uint64_t seq_a = 0, seq_b = 0;
  std::vector<std::string> before;  // up to ten equal steps before the difference
};

struct ComparedTrace {
  std::uint64_t records = 0;
  int code = 0;  // exit code of reading the trace
};
struct Comparison {
  Difference difference;  // the one that comes first in the traces
  ComparedTrace a, b;
};

struct NamedFile {
  std::string name;  // for messages
  std::string path;
};
// Compares the traces one machine at a time. Reads each file more than once. Prints read errors on stderr.
// `most_held`: number of steps to hold; a machine of which more steps would have to wait for the other trace
// is compared in a pass of its own.
Comparison compare(const NamedFile& a, const NamedFile& b, CompareMode mode,
                   std::size_t most_held = std::size_t{1} << 20);

}  // namespace rtrs::replay_tool
