// The price of a session: urtrs and the bare fabric in turn, in fresh pairs of processes on this machine.
#pragma once
#include <string>
#include <vector>

#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// One run with the bare one before and after it.
struct Round {
  double before = 0;
  double ours = 0;
  double after = 0;
  double ratio() const noexcept { return ours / ((before + after) / 2); }
  // The two bare runs disagree by more than 15 %: whatever the ratio, it says nothing.
  bool noisy() const noexcept;
};
struct Verdict {
  double median = 0;
  double least = 0;
  double most = 0;
  unsigned valid = 0;
};
// Of the rounds that are not noisy; all zero when every one is.
Verdict judge(const std::vector<Round>&);
// kNoVerdict where one of the figures has no round that counts, else kOk.
int comparison_code(const std::vector<Verdict>&);

int run_comparison(const Options&);

}  // namespace rtrs::perf
