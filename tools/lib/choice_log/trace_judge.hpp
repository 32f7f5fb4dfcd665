// Simulated runs are recorded as real ones are, and judged like them (docs/conformance.md).
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "conformance/spec/findings.hpp"
#include "core/proto/ids.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/judge/law_check.hpp"

namespace rtrs::tools {

// A folder in memory for the traces of one run, gone with this object.
class TraceScratch {
 public:
  // Of the trace files of a run; empty when no folder could be made.
  std::string prefix() const { return folder_.path().empty() ? std::string() : folder_ / "run"; }

 private:
  static std::filesystem::path base();
  trace::ScratchFolder folder_{base()};
};

struct TraceViolation {
  std::string id;      // of the rule, or A and the number of the law
  std::string oracle;  // O1..O18
  std::string rule;    // its text
  std::string seen;    // with the rule's id, what was seen and what would have been allowed
  std::string where;   // file and record
  Nanos time = 0;
};

// The earliest violation of several traces of one run. Those of the laws count only where no trace has one.
class TraceVerdict {
 public:
  void add(const std::vector<spec::Finding>& findings, std::size_t most_states, const std::string& trace);
  void add(const sim::LawCheck& laws);
  const std::optional<TraceViolation>& first() const noexcept { return first_; }

 private:
  std::optional<TraceViolation> first_;
};

// The traces that a run wrote to PREFIX.*.rtrc, in order of their names.
std::vector<std::string> traces_of(const std::string& prefix);

// Judges the traces that a run wrote to PREFIX.*.rtrc; the earliest violation.
std::optional<TraceViolation> judge_traces(const std::string& prefix);

}  // namespace rtrs::tools
