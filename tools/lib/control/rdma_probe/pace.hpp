// How long a probe waits, and what it tells meanwhile.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace rtrs::probe {

using Clock = std::chrono::steady_clock;

struct Pace {
  // Of one thing that should take microseconds.
  std::chrono::milliseconds patience{5000};
  // Of each measurement.
  std::chrono::milliseconds measures{500};
  // True: end at once, what is known by then is told.
  std::function<bool()> stop = [] { return false; };
  // How far it is.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

}  // namespace rtrs::probe
