// Converts times to the form that JSON output uses.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/proto/ids.hpp"

namespace rtrs::tools {

inline double seconds_of(Nanos time) {
  return static_cast<double>(time) / 1e9;
}
// Returns microseconds, rounded to 0.1 us.
inline double micros_of(std::uint64_t nanos) {
  return std::round(static_cast<double>(nanos) / 100) / 10;
}
// Returns 0 if `to` is not later than `from`.
inline double seconds_between(Nanos from, Nanos to) {
  return seconds_of(to > from ? to - from : 0);
}
// Returns JSON null if `then` is kNever, which means that the event never happened.
inline nlohmann::json seconds_since(Nanos then, Nanos now) {
  return then < now ? nlohmann::json(seconds_of(now - then)) : nlohmann::json();
}

}  // namespace rtrs::tools
