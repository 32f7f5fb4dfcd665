// A measurement with a new pair of processes on loopback: the server runs on CPU 1, the client on CPU 0.
#pragma once
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

struct PairResult {
  double p50 = 0;   // median latency in microseconds
  double iops = 0;  // median of the rates in windows of 50 ms
};
// Runs the measurement. The error is a human-readable message. Takes at most the run time plus some seconds,
// even if a process hangs.
tl::expected<PairResult, std::string> run_pair(const Options&, bool raw, unsigned iodepth);

}  // namespace rtrs::perf
