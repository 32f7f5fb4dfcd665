#include "sim/cluster/watched_fabric.hpp"

#include <algorithm>

namespace rtrs::sim {

Result<Region> WatchedFabric::booked(Result<Region> region) {
  if (!region) return region;
  ++holdings_.regions;
  return known(std::move(region));
}

std::size_t WatchedFabric::poll(Nanos now, std::span<FabricEvent> events) noexcept {
  const std::size_t count = inner_.poll(now, events);
  taken_ += count;
  for (const FabricEvent& event : events.first(count)) {
    left_keys_.happened(event);
    switch (event.kind) {
      case FabricEvent::Kind::imm_received:
      case FabricEvent::Kind::message_received:
      case FabricEvent::Kind::key_invalidated:
        watch_.received(event.key.path, clock_.true_time(now));
        break;
      case FabricEvent::Kind::connection_closed: {
        --holdings_.connections;
        const auto at = std::find(live_.begin(), live_.end(), event.key);
        if (at != live_.end()) {
          *at = live_.back();
          live_.pop_back();
        }
        break;
      }
      default:
        break;
    }
  }
  return count;
}

}  // namespace rtrs::sim
