#include "sim/world/watched_fabric.hpp"

#include <algorithm>

#include "core/base/overloaded.hpp"

namespace rtrs::sim {

Result<Region> WatchedFabric::booked(Result<Region> region) {
  if (!region) return region;
  ++holdings_.regions;
  return known(std::move(region));
}

void WatchedFabric::update_crowd_watch(const FabricEvent& event) {
  std::visit(Overloaded{
                 [this](const event::ConnectRequested& one) {
                   crowds_->asked(one.request, one.host, one.private_data);
                   identities_->asked(one.request, one.identity);
                   hear(one);
                 },
                 [this](const event::MessageReceived& one) { crowds_->named(one.key); },
                 [this](const event::ConnectionLost& one) { crowds_->lost(one.key); },
                 [this](const event::ConnectFailed& one) { crowds_->lost(one.key); },
                 [this](const event::ConnectionClosed& one) {
                   crowds_->closed(one.key);
                   identities_->closed(one.key);
                 },
                 [](const auto&) {},
             },
             event);
}

void WatchedFabric::hear(const event::ConnectRequested& event) {
  if (stranger_ == event.host) return;
  const auto request = wire::parse_conn_req(event.private_data);
  if (request) heard_ = request.value;
}

void WatchedFabric::closed(ConKey key) {
  --holdings_.connections;
  const auto at = std::find(live_.begin(), live_.end(), key);
  if (at == live_.end()) return;
  *at = live_.back();
  live_.pop_back();
}

void WatchedFabric::update_connection_watch(const FabricEvent& event, Nanos now) {
  std::visit(Overloaded{
                 [&](const event::AddressesFound& one) { connections_->found(one.key, one.count, now); },
                 [&](const event::Connected& one) { connections_->up(one.key, now); },
                 [this](const event::ConnectFailed& one) { connections_->lost(one.key, one.reason); },
                 [this](const event::ConnectionLost& one) { connections_->lost(one.key, one.reason); },
                 [](const auto&) {},
             },
             event);
}

std::size_t WatchedFabric::poll(Nanos now, std::span<FabricEvent> events) noexcept {
  own_now_ = now;
  const std::size_t count = inner_.poll(now, events);
  taken_ += count;
  now_ = clock_.true_time(now);
  if (crowds_) crowds_->polled();
  const auto received = [&, this](ConKey key) { watch_.received(key.place(), clock_.true_time(now)); };
  for (const FabricEvent& event : events.first(count)) {
    left_keys_.happened(event);
    if (crowds_) update_crowd_watch(event);
    if (connections_) update_connection_watch(event, now);
    std::visit(Overloaded{
                   [&](const event::ImmReceived& one) { received(one.key); },
                   [&](const event::MessageReceived& one) { received(one.key); },
                   [&](const event::KeyInvalidated& one) { received(one.key); },
                   [this](const event::ConnectionClosed& one) { closed(one.key); },
                   [](const auto&) {},
               },
               event);
  }
  return count;
}

}  // namespace rtrs::sim
