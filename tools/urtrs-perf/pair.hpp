// One measurement in a fresh pair of processes on loopback: the server on processor 1, the client on 0.
#pragma once
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

struct PairResult {
  double p50 = 0;   // microseconds
  double iops = 0;  // median of the 50 ms windows
};
// The error is a sentence. Takes at most the run time and some seconds, whatever the two do.
tl::expected<PairResult, std::string> run_pair(const Options&, bool raw, unsigned iodepth);

}  // namespace rtrs::perf
