// What one measurement came to.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "core/proto/ids.hpp"
#include "tools/lib/latency/histogram.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Rates are taken over windows of this length: their median survives a moment without the processor.
inline constexpr Nanos kWindow = milliseconds(50);

struct Result {
  std::uint32_t bytes = 0;  // of each IO
  unsigned iodepth = 1;
  std::uint64_t iterations = 0;        // IOs completed after the warm-up
  Nanos elapsed = 0;                   // from the end of the warm-up
  tools::Histogram latency;            // nanoseconds from submission to completion
  std::vector<std::uint64_t> windows;  // IOs completed in each whole window

  double iops() const noexcept;
  double peak_iops() const noexcept;    // of the best window; iops() when there was none
  double median_iops() const noexcept;  // of the windows; likewise
};

struct PathLine {
  std::string name;
  std::string state;
  std::uint64_t ios = 0;
  std::uint64_t failovers = 0;
  std::uint64_t reconnects = 0;
  DevicePort device{};  // when it was last connected
};

struct Report {
  std::vector<Result> results;
  std::vector<PathLine> paths;
  std::string failure;  // a sentence; empty: none
  int exit_code = kOk;
};

}  // namespace rtrs::perf
