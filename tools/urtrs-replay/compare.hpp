// Compares two traces: byte for byte, by what happened (canonical), or by what became of the paths (state).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::tools {

enum class CompareMode : std::uint8_t {
  exact,      // every record with its time and place
  canonical,  // of every machine the inputs and actions, without times; names by their first use
  state,      // of every machine the states of paths, links and sessions
};

// One step of a machine, comparable with one of the other trace.
struct Step {
  std::uint64_t seq = 0;
  std::string key;   // what is compared
  std::string text;  // what people read
};

// What one machine did, from its begin to its end.
struct Thread {
  std::string name;  // kind and number, such as "client_session 0"
  std::vector<Step> steps;
};

struct ComparedTrace {
  std::vector<Thread> threads;
  std::uint64_t records = 0;
  int code = 0;  // exit code of reading it
};

// Says on stderr what cannot be read.
ComparedTrace read_for_compare(const std::string& path, CompareMode mode);

struct Difference {
  bool found = false;
  std::string thread;
  // The step that differs; the text is empty where the trace has no further one.
  std::string a, b;
  std::uint64_t seq_a = 0, seq_b = 0;
  std::vector<std::string> before;  // what both did before, up to ten
};

// The first cause: of every machine the first difference counts, and of these the one that comes first in
// the traces.
Difference compare(const ComparedTrace& a, const ComparedTrace& b);

}  // namespace rtrs::tools
