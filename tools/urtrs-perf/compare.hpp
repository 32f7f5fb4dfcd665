// --compare-raw: measures the overhead of a session. Runs urtrs and the bare fabric alternately, each time in
// a new pair of processes on this host.
#pragma once
#include <string>
#include <vector>

#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// A urtrs run, and the bare runs before and after it.
struct Round {
  double before = 0;
  double ours = 0;
  double after = 0;
  double ratio() const noexcept { return ours / ((before + after) / 2); }
  // True if the two bare runs differ by more than 15 %, because the ratio then means nothing.
  bool noisy() const noexcept;
};
struct Verdict {
  double median = 0;
  double least = 0;
  double most = 0;
  unsigned valid = 0;
};
// Computes statistics over the rounds that are not noisy; all zero if every round is noisy.
Verdict judge(const std::vector<Round>&);
// Returns kNoVerdict if a metric has no valid round, otherwise kOk.
int comparison_code(const std::vector<Verdict>&);

int run_comparison(const Options&);

}  // namespace rtrs::perf
