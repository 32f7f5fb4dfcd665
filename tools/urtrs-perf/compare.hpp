// --compare-raw: measures the overhead of a session by running urtrs and the bare fabric alternately, each
// time in a new pair of processes on this host.
#pragma once
#include <string>
#include <vector>

#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// One urtrs run, with the bare runs before and after it.
struct Round {
  double before = 0;
  double ours = 0;
  double after = 0;
  double ratio() const noexcept { return ours / ((before + after) / 2); }
  // True if the two bare runs differ by more than 15 %, so that the ratio is meaningless.
  bool noisy() const noexcept;
};
struct Verdict {
  double median = 0;
  double least = 0;
  double most = 0;
  unsigned valid = 0;
};
// Statistics of the rounds that are not noisy; all zero if there are none.
Verdict judge(const std::vector<Round>&);
// Returns kNoVerdict if any metric has no valid round, otherwise kOk.
int comparison_code(const std::vector<Verdict>&);

int run_comparison(const Options&);

}  // namespace rtrs::perf
