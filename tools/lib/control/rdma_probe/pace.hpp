// Time limits and progress reports of a probe.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace rtrs::probe {

using Clock = std::chrono::steady_clock;

struct Pace {
  // Time limit of one operation, which normally takes microseconds.
  std::chrono::milliseconds patience{5000};
  // Duration of each measurement.
  std::chrono::milliseconds measures{500};
  // Called periodically. If it returns true, the probe ends immediately and returns the results so far.
  std::function<bool()> stop = [] { return false; };
  // Called with progress messages.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

}  // namespace rtrs::probe
