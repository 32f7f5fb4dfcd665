#include "tools/urtrs-perf/result.hpp"

#include <algorithm>

namespace rtrs::perf {
namespace {

constexpr double kWindowsASecond = 1e9 / static_cast<double>(kWindow);

}  // namespace

double Result::iops() const noexcept {
  return elapsed == 0 ? 0 : static_cast<double>(iterations) * 1e9 / static_cast<double>(elapsed);
}

double Result::peak_iops() const noexcept {
  if (windows.empty()) return iops();
  return static_cast<double>(*std::max_element(windows.begin(), windows.end())) * kWindowsASecond;
}

double Result::median_iops() const noexcept {
  if (windows.empty()) return iops();
  std::vector<std::uint64_t> sorted = windows;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return static_cast<double>(*middle) * kWindowsASecond;
}

}  // namespace rtrs::perf
