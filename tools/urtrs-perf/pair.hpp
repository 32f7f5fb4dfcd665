// One measurement in a new pair of processes on loopback: server on CPU 1, client on CPU 0.
#pragma once
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

struct PairResult {
  double p50 = 0;   // microseconds
  double iops = 0;  // median of the 50 ms windows
};
// The error is a sentence. Takes at most the run time plus some seconds, even if a process hangs.
tl::expected<PairResult, std::string> run_pair(const Options&, bool raw, unsigned iodepth);

}  // namespace rtrs::perf
