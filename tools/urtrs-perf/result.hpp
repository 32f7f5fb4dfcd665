// Results of a measurement.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "core/proto/ids.hpp"
#include "tools/lib/latency/histogram.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Length of the windows in which rates are measured. The median over many windows is robust against short
// interruptions.
inline constexpr Nanos kWindow = milliseconds(50);

struct Result {
  std::uint32_t bytes = 0;  // size of each IO
  unsigned iodepth = 1;
  std::uint64_t iterations = 0;        // number of IOs completed after the warm-up
  Nanos elapsed = 0;                   // time since the end of the warm-up
  tools::Histogram latency;            // time from submission to completion in nanoseconds
  std::vector<std::uint64_t> windows;  // IOs completed in each window; an incomplete last window is left out

  double iops() const noexcept;
  double peak_iops() const noexcept;    // IOPS of the best window; iops() if there are no windows
  double median_iops() const noexcept;  // median IOPS of all windows; iops() if there are no windows
};

struct PathLine {
  std::string name;
  std::string state;
  std::uint64_t ios = 0;
  std::uint64_t failovers = 0;
  std::uint64_t reconnects = 0;
  DevicePort device{};  // device of the last connection
};

struct Report {
  std::vector<Result> results;
  std::vector<PathLine> paths;
  std::string failure;  // error text; empty: none
  int exit_code = kOk;
};

}  // namespace rtrs::perf
