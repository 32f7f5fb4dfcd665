#include "sim/cluster/watched_fabric.hpp"

#include <algorithm>

namespace rtrs::sim {

Result<Region> WatchedFabric::booked(Result<Region> region) {
  if (!region) return region;
  ++holdings_.regions;
  return known(std::move(region));
}

void WatchedFabric::tell_crowds(const FabricEvent& event) {
  switch (event.kind) {
    case FabricEvent::Kind::connect_requested:
      return crowds_->asked(event.request, event.host, event.bytes);
    case FabricEvent::Kind::message_received:
      return crowds_->named(event.key);
    case FabricEvent::Kind::connection_lost:
    case FabricEvent::Kind::connect_failed:
      return crowds_->lost(event.key);
    case FabricEvent::Kind::connection_closed:
      return crowds_->closed(event.key);
    default:
      return;
  }
}

void WatchedFabric::tell_connections(const FabricEvent& event, Nanos now) {
  if (event.kind == FabricEvent::Kind::connected) connections_->up(event.key, now);
  const bool lost =
      event.kind == FabricEvent::Kind::connect_failed || event.kind == FabricEvent::Kind::connection_lost;
  if (lost) connections_->lost(event.key, event.reason);
}

std::size_t WatchedFabric::poll(Nanos now, std::span<FabricEvent> events) noexcept {
  const std::size_t count = inner_.poll(now, events);
  taken_ += count;
  now_ = clock_.true_time(now);
  if (crowds_) crowds_->polled();
  for (const FabricEvent& event : events.first(count)) {
    left_keys_.happened(event);
    if (crowds_) tell_crowds(event);
    if (connections_) tell_connections(event, now);
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
