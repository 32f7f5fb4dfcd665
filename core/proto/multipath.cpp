#include "core/proto/multipath.hpp"

namespace rtrs {

namespace {

// Returns the cost of a path; the path with the lowest cost is preferred. A path without a measured latency
// comes after all measured paths, so that it neither attracts all requests nor is excluded.
std::uint64_t cost(const ClientPath& path, MultipathPolicy policy) noexcept {
  switch (policy) {
    case MultipathPolicy::min_inflight:
      return path.inflight();
    case MultipathPolicy::min_latency:
      return path.latency() == 0 ? kNever - 1 : path.latency();
    case MultipathPolicy::round_robin:
      break;
  }
  return 0;
}

bool usable(const ClientPath& path, bool service, std::uint16_t affinity) noexcept {
  return path.connected() && path.has_room(connection_for(path, service, affinity));
}

}  // namespace

unsigned choose_path(const PathTable& paths, MultipathPolicy policy, unsigned connected, bool service,
                     std::uint16_t affinity, unsigned& cursor) noexcept {
  unsigned best = kNoPath;
  if (policy == MultipathPolicy::round_robin) {
    const auto count = static_cast<unsigned>(paths.size());
    for (unsigned step = 0; step < count && best == kNoPath; ++step) {
      const unsigned index = cursor + step < count ? cursor + step : cursor + step - count;
      if (usable(paths[index], service, affinity)) best = index;
    }
    if (best != kNoPath) cursor = best + 1 < count ? best + 1 : 0;
    return best;
  }
  std::uint64_t lowest = kNever;
  // Stops after the last connected path, because looking at each further path costs cache misses.
  for (unsigned index = 0, left = connected; index < paths.size() && left > 0; ++index) {
    if (!paths[index].connected()) continue;
    --left;
    if (!usable(paths[index], service, affinity)) continue;
    const std::uint64_t candidate = cost(paths[index], policy);
    if (candidate < lowest) {
      lowest = candidate;
      best = index;
    }
  }
  return best;
}

}  // namespace rtrs
