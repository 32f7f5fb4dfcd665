// Time limits and progress reports of a probe.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace rtrs::probe {

using Clock = std::chrono::steady_clock;

struct Pace {
  // Time limit of one operation that should take microseconds.
  std::chrono::milliseconds patience{5000};
  // Duration of each measurement.
  std::chrono::milliseconds measures{500};
  // Returns true to end the probe at once; the results so far are returned.
  std::function<bool()> stop = [] { return false; };
  // Receives progress messages.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

}  // namespace rtrs::probe
