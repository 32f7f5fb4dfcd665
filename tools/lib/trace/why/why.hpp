// Chooses what to explain in one or several traces of a run.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/trace/hangs/unanswered.hpp"
#include "tools/lib/trace/judge/law_check.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/why/device.hpp"
#include "tools/lib/trace/why/path.hpp"
#include "tools/lib/trace/why/request.hpp"

namespace rtrs::tools::why {

// What `check` found in one trace.
struct Findings {
  std::vector<spec::Finding> findings;
  std::uint64_t violations = 0;
};

struct Target {
  enum class Kind : std::uint8_t { most_important, path, request, device, at };
  Kind kind = Kind::most_important;
  std::uint64_t number = 0;
  std::optional<Index> file;       // if the traces are of several clients
  std::optional<std::int64_t> at;  // common time
};

// All that is known about the traces.
struct Known {
  const Story& story;
  const std::vector<trace::Unanswered>& unanswered;
  const DeviceLog& devices;
  trace::TimeBase times;                // shows common times
  std::vector<Findings> findings;       // of each trace; empty unless the target is the most important thing
  std::vector<trace::LawFinding> laws;  // violations of the laws of reliable connections
};

// Explains the target. The answer has no title if there is no such path, request or device.
Answer explain(const Known&, const Target&);

}  // namespace rtrs::tools::why
