// Compares two traces: byte by byte (exact), by events (canonical), or by the states of paths, links and
// sessions (state).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::replay_tool {

enum class CompareMode : std::uint8_t {
  exact,      // all records, with time and machine
  canonical,  // inputs and actions of each machine, without times; handles are numbered by first use
  state,      // states of paths, links and sessions of each machine
};

// One step of a state machine, to compare with a step of the other trace.
struct Step {
  std::uint64_t seq = 0;
  std::string key;   // text that is compared
  std::string text;  // text that is printed
};

// The steps of one machine, from its begin record to its end. Compared with a thread of the other trace.
struct Thread {
  std::string name;  // kind and number, such as "client_session 0"
  std::vector<Step> steps;
};

struct ComparedTrace {
  std::vector<Thread> threads;
  std::uint64_t records = 0;
  int code = 0;  // exit code of reading the trace
};

// Reads a trace to compare it. Prints read errors on stderr.
ComparedTrace read_for_compare(const std::string& path, CompareMode mode);

struct Difference {
  bool found = false;
  std::string thread;
  // The first steps that differ; the text is empty if a trace has no more steps.
  std::string a, b;
  std::uint64_t seq_a = 0, seq_b = 0;
  std::vector<std::string> before;  // up to ten equal steps before the difference
};

// Compares the traces one state machine at a time. Returns the difference that comes first in the traces.
Difference compare(const ComparedTrace& a, const ComparedTrace& b);

}  // namespace rtrs::replay_tool
