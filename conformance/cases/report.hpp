// Results for people and for programs.
#pragma once
#include <string>
#include <vector>

#include "conformance/cases/baseline.hpp"
#include "conformance/cases/result.hpp"

namespace rtrs::conformance {

enum class Verdict : std::uint8_t {
  passed,
  mended,    // the baseline says that it fails, and it does not
  failed,    // a must or should
  differs,   // a quirk: not the peer's fault
  deviates,  // failed, as the baseline says
  not_run,
};
const char* to_string(Verdict) noexcept;
// `baseline` may be null.
Verdict judge(const Result&, const Baseline*) noexcept;

struct Run {  // what the reports say about it as a whole
  std::string target;
  Role role = Role::server;
  std::string fabric;
  std::string version;  // of the tool
  const Baseline* baseline = nullptr;
  bool cve = false;  // the question is which of cves.hpp the peer has
};

// "C012 (connect: wrong magic is refused)   [passed]  0.03s", and under it what went wrong.
std::string text_line(const Result&, const Baseline*);
// The part that is known before the case ran, as wide.
std::string text_head(const Case&);
std::string text_summary(const Run&, const std::vector<Result>&);
std::string tap(const Run&, const std::vector<Result>&);
std::string junit(const Run&, const std::vector<Result>&);
std::string json(const Run&, const std::vector<Result>&);
// For a bug report or a page: a summary, what did not pass with its reason and rule, and all cases.
std::string markdown(const Run&, const std::vector<Result>&);
// Lines of at most 120 columns.
std::string list_text(const std::vector<const Case*>&);
std::string list_json(const std::vector<const Case*>&);

inline constexpr int kAllPassed = 0, kSomeFailed = 1, kNothingRun = 77;
// Known deviations and quirks fail nothing.
int exit_code(const std::vector<Result>&, const Baseline*) noexcept;

}  // namespace rtrs::conformance
