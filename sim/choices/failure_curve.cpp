#include "sim/choices/failure_curve.hpp"

#include <cmath>

namespace rtrs::sim {

namespace {

struct Sum {
  double redraws = 0, failed = 0;
  void add(const FailurePoint& point) noexcept {
    redraws += static_cast<double>(point.redraws);
    failed += static_cast<double>(point.failed);
  }
  double rate() const noexcept { return redraws == 0 ? 0 : failed / redraws; }
  // Logarithm of the likelihood of these redraws if all have this rate.
  double likelihood() const noexcept {
    const double passed = redraws - failed;
    double sum = 0;
    if (failed > 0) sum += failed * std::log(failed / redraws);
    if (passed > 0) sum += passed * std::log(passed / redraws);
    return sum;
  }
};

FailureStep step_at(std::span<const FailurePoint> points, std::size_t point) {
  FailureStep step;
  step.point = point;
  step.after = point == 0 ? 0 : points[point - 1].draw;
  step.before = points[point].draw;
  Sum before, after;
  for (std::size_t at = 0; at < points.size(); ++at) (at < point ? before : after).add(points[at]);
  step.rate_before = before.rate();
  step.rate_after = after.rate();
  Sum all = before;
  all.redraws += after.redraws;
  all.failed += after.failed;
  step.gain = before.likelihood() + after.likelihood() - all.likelihood();
  return step;
}

}  // namespace

std::vector<std::uint64_t> points_between(std::uint64_t from, std::uint64_t to, std::size_t count) {
  std::vector<std::uint64_t> points;
  if (to <= from) return points;
  for (std::size_t part = 1; part <= count; ++part) {
    const std::uint64_t draw = from + (to - from) * part / (count + 1);
    if (draw > (points.empty() ? from : points.back()) && draw < to) points.push_back(draw);
  }
  return points;
}

std::optional<FailureStep> likely_step(std::span<const FailurePoint> points) {
  std::optional<std::size_t> best;
  double most = 0;
  for (std::size_t point = 1; point < points.size(); ++point) {
    Sum before, after;
    for (std::size_t at = 0; at < points.size(); ++at) (at < point ? before : after).add(points[at]);
    if (after.rate() <= before.rate()) continue;
    const double likelihood = before.likelihood() + after.likelihood();
    if (best && likelihood <= most) continue;
    best = point;
    most = likelihood;
  }
  if (!best) return std::nullopt;
  return step_at(points, *best);
}

std::optional<FailureStep> inevitable_step(std::span<const FailurePoint> points, double least) {
  std::size_t point = points.size();
  while (point > 0 && points[point - 1].rate() >= least) --point;
  if (point == points.size()) return std::nullopt;
  return step_at(points, point);
}

}  // namespace rtrs::sim
