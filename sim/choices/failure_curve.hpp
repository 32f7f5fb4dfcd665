// Estimates the probability of a failure at each point of a run from runs whose later choices are drawn
// again, and finds the step that made the failure likely.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rtrs::sim {

struct FailurePoint {
  std::uint64_t draw = 0;   // runs repeat the choices before this draw
  std::uint64_t event = 0;  // number of events before this draw
  std::uint64_t redraws = 0;
  std::uint64_t failed = 0;  // number of redraws with the same failure
  double rate() const noexcept {
    return redraws == 0 ? 0 : static_cast<double>(failed) / static_cast<double>(redraws);
  }
  bool operator==(const FailurePoint&) const = default;
};

// Interval of draws in which the failure became likely. With only the choices before `after`, the failure was
// not yet likely; with the choices before `before`, it was.
struct FailureStep {
  std::size_t point = 0;  // first point of the curve that has the higher rate
  std::uint64_t after = 0, before = 0;
  double rate_before = 0, rate_after = 0;  // failure rates on the two sides
  // Logarithm of the likelihood ratio: the redraws with two rates, compared to one rate for all.
  double gain = 0;
};

// Returns `count` draws that divide [from, to] into equal parts, without the two ends and without
// repetitions.
std::vector<std::uint64_t> points_between(std::uint64_t from, std::uint64_t to, std::size_t count);

// Finds the point that best divides the curve into a part with a low rate and a part with a higher rate, by
// maximum likelihood. `points`: in ascending order of draws; the last one should be the end of the failing
// run, where every redraw fails. nullopt: fewer than two points, or the failure was as likely at the
// beginning.
std::optional<FailureStep> likely_step(std::span<const FailurePoint> points);
// Finds the first point from which on the rate is always at least `least`, for example 0.9.
std::optional<FailureStep> inevitable_step(std::span<const FailurePoint> points, double least);

}  // namespace rtrs::sim
