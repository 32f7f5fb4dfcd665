#include "backends/verbs/verbs_patience.hpp"

#include <algorithm>

namespace rtrs::verbs {
namespace {

constexpr std::uint32_t kSoftRoce = 0xffffff;
constexpr std::uint32_t kMellanox = 0x02c9;
// Connect-IB, the first part number of the mlx5 family.
constexpr std::uint32_t kFirstOfMlx5 = 4113;
constexpr std::uint8_t kSoftRoceInfiniteRetries = 7;

// Returns the lowest value that the firmware accepts; docs/fabric.md lists the sources.
std::uint8_t min_timeout_of(TimerKind kind) noexcept {
  if (kind == TimerKind::mlx4) return 17;
  return kind == TimerKind::mlx5 ? 16 : 0;
}

}  // namespace

TimerKind timer_kind(std::uint32_t vendor, std::uint32_t part) noexcept {
  if (vendor == kSoftRoce) return TimerKind::exact;
  if (vendor != kMellanox) return TimerKind::standard;
  return part < kFirstOfMlx5 ? TimerKind::mlx4 : TimerKind::mlx5;
}

Patience patience(TimerKind kind, Retries retries) noexcept {
  const bool never =
      retries.timeout == 0 || (kind == TimerKind::exact && retries.count >= kSoftRoceInfiniteRetries);
  if (never) return {kNever, kNever};
  const unsigned exponent = std::max(retries.timeout, min_timeout_of(kind));
  const Nanos least = (Nanos{retries.count} + 1) * (Nanos{4096} << exponent);
  // InfiniBand allows a timer to take four times its nominal value.
  return {least, kind == TimerKind::exact ? least : 4 * least};
}

std::uint8_t max_timeout_within(TimerKind kind, std::uint8_t count, Nanos within) noexcept {
  std::uint8_t found = 0;
  for (std::uint8_t timeout = 1; timeout < 32; ++timeout)
    if (patience(kind, {timeout, count}).most <= within) found = timeout;
  return found;
}

std::string seconds_text(Nanos time) {
  if (time == kNever) return "for ever";
  const Nanos tenths = (time + milliseconds(50)) / milliseconds(100);
  if (tenths == 0) return std::to_string(time / milliseconds(1)) + " ms";
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace rtrs::verbs
