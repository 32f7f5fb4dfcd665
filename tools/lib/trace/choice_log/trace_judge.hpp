// Judges the traces of simulated runs in the same way as traces of real runs (docs/conformance.md).
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "conformance/spec/findings.hpp"
#include "core/proto/ids.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/judge/law_check.hpp"

namespace rtrs::tools {

// In-memory folder for the traces of one run; the destructor removes it.
class TraceScratch {
 public:
  // Path prefix for the trace files of a run; empty if the folder could not be created.
  std::string prefix() const { return folder_.path().empty() ? std::string() : folder_ / "run"; }

 private:
  static std::filesystem::path base();
  ScratchFolder folder_{base()};
};

struct TraceViolation {
  std::string id;      // id of the rule, or A1..A18 for a law
  std::string oracle;  // id of the oracle, O1 to O18
  std::string rule;    // text of the rule
  std::string seen;    // id of the rule, what was seen, and what was allowed
  std::string where;   // file and record number
  Nanos time = 0;
};

// Earliest violation in the traces of one run. Law violations count only if no trace violates a rule.
class TraceVerdict {
 public:
  void add(const std::vector<spec::Finding>& findings, std::size_t most_states, const std::string& trace);
  void add(const trace::LawCheck& laws);
  const std::optional<TraceViolation>& first() const noexcept { return first_; }

 private:
  std::optional<TraceViolation> first_;
};

// Returns the trace files PREFIX.*.rtrc of a run, sorted by name.
std::vector<std::string> traces_of(const std::string& prefix);

// Judges the traces that a run wrote to PREFIX.*.rtrc; returns the earliest violation.
std::optional<TraceViolation> judge_traces(const std::string& prefix);

}  // namespace rtrs::tools
