#include "tools/lib/trace/choice_log/trace_judge.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "sim/oracles/judge.hpp"
#include "tools/lib/trace/judge/law_check.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"

namespace rtrs::tools {

namespace fs = std::filesystem;

// Maximum number of states that the specification may consider possible at one time. With more, almost any
// continuation of the trace would be accepted (docs/conformance.md).
constexpr std::size_t kMaxStates = 64;

// Prefers /dev/shm, because memory is faster than a disk.
fs::path TraceScratch::base() {
  std::error_code error;
  const fs::path memory = "/dev/shm";
  return fs::is_directory(memory, error) ? memory : fs::temp_directory_path(error);
}

std::vector<std::string> traces_of(const std::string& prefix) {
  const fs::path whole(prefix);
  const fs::path folder = whole.has_parent_path() ? whole.parent_path() : fs::path(".");
  const std::string begins = whole.filename().string() + ".";
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begins) && name.ends_with(".rtrc")) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

TraceViolation of(const spec::Finding& finding, const std::string& trace) {
  const spec::RuleInfo& rule = spec::info_of(finding.rule);
  return {std::string(rule.id),
          std::string(rule.oracle),
          std::string(rule.text),
          std::string(rule.id) + ": " + finding.seen + "; allowed: " + finding.allowed,
          trace + " record " + std::to_string(finding.seq),
          finding.now};
}

}  // namespace

void TraceVerdict::add(const std::vector<spec::Finding>& findings, std::size_t most_states,
                       const std::string& trace) {
  if (!first_ && most_states > kMaxStates)
    first_ = TraceViolation{"states",
                            sim::id_of(sim::Oracle::specification),
                            sim::rule_of(sim::Oracle::specification),
                            std::to_string(most_states) + " states were possible at a time, more than " +
                                std::to_string(kMaxStates),
                            trace,
                            0};
  if (findings.empty()) return;
  if (!first_ || findings.front().now < first_->time) first_ = of(findings.front(), trace);
}

void TraceVerdict::add(const trace::LawCheck& laws) {
  if (first_ || laws.findings.empty()) return;
  const trace::LawFinding& finding = laws.findings.front();
  const std::string id = "A" + std::to_string(finding.law);
  first_ = TraceViolation{id,
                          "O18",
                          "the network keeps the laws of reliable connections",
                          id + ": " + finding.text,
                          "the notes of both sides",
                          0};
}

std::optional<TraceViolation> judge_traces(const std::string& prefix) {
  TraceVerdict verdict;
  trace::LawCollector collector;
  for (const std::string& name : traces_of(prefix)) {
    const fs::path file(name);
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    trace::FdSource source(fd);
    const trace::TraceCheck check = trace::check_trace(source, &collector);
    ::close(fd);
    verdict.add(check.findings, check.most_states, file.filename().string());
  }
  verdict.add(collector.judge(trace::LawCollector::Contents::ignore));
  return verdict.first();
}

}  // namespace rtrs::tools
