// Reports of results as text, TAP, JUnit, JSON and Markdown.
#pragma once
#include <string>
#include <vector>

#include "conformance/cases/baseline.hpp"
#include "conformance/cases/result.hpp"

namespace rtrs::conformance {

enum class Verdict : std::uint8_t {
  passed,
  mended,    // passed, although the baseline lists it as failing
  failed,    // broke a `must` or `should` rule
  differs,   // differs in a quirk, which is not an error of the peer
  deviates,  // failed as the baseline lists
  not_run,
};
const char* to_string(Verdict) noexcept;
// `baseline` may be null.
Verdict judge(const Result&, const Baseline*) noexcept;

struct Run {
  std::string target;
  Role role = Role::server;
  std::string fabric;
  std::string version;  // version of the tool
  const Baseline* baseline = nullptr;
  bool cve = false;  // report the CVEs (cves.hpp) that the peer has
};

// "C012 (connect: wrong magic is refused)   [passed]  0.03s", then the error if any.
std::string text_line(const Result&, const Baseline*);
// The beginning of text_line(), printed before the case runs and padded to the same width.
std::string text_head(const Case&);
std::string text_summary(const Run&, const std::vector<Result>&);
std::string tap(const Run&, const std::vector<Result>&);
std::string junit(const Run&, const std::vector<Result>&);
std::string json(const Run&, const std::vector<Result>&);
// Report for a bug tracker or a web page: a summary, each failed case with reason and rule, and all cases.
std::string markdown(const Run&, const std::vector<Result>&);
// Lists the cases, wrapped at 120 columns.
std::string list_text(const std::vector<const Case*>&);
std::string list_json(const std::vector<const Case*>&);

inline constexpr int kAllPassed = 0, kSomeFailed = 1, kNothingRun = 77;
// Exit code of the program. Known deviations and quirks do not count as failures.
int exit_code(const std::vector<Result>&, const Baseline*) noexcept;

}  // namespace rtrs::conformance
