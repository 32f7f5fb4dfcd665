// Forwards all calls and events. Records which resources its user holds, which connections are alive, and
// when a message of each peer last arrived. The inner fabric must outlive this object.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"
#include "core/proto/limits.hpp"
#include "core/wire/messages.hpp"
#include "sim/oracles/connection_watch.hpp"
#include "sim/oracles/crowd_watch.hpp"
#include "sim/oracles/fence_watch.hpp"
#include "sim/oracles/heartbeat_watch.hpp"
#include "sim/oracles/identity_watch.hpp"
#include "sim/oracles/ledger.hpp"
#include "sim/oracles/left_keys.hpp"
#include "sim/world/clock_rate.hpp"

namespace rtrs::sim {

class WatchedFabric final : public ForwardingFabric {
 public:
  // `clock`: clock of the calling process.
  WatchedFabric(Fabric& inner, HeartbeatWatch& watch, const ClockRate& clock)
      : ForwardingFabric(inner), watch_(watch), clock_(clock) {}
  // Starts to judge how the server treats connect requests, with CrowdWatch and IdentityWatch.
  void watch_connect_requests(Judge& judge, const ServerConfig& config) {
    crowds_.emplace(judge, config);
    identities_.emplace(judge);
  }
  // Returns the last connect request that the server received from a host other than `host`, so that `host`
  // can impersonate the sender.
  const std::optional<wire::ConnReq>& overheard_by(std::uint32_t host) noexcept {
    stranger_ = host;
    return heard_;
  }
  // Starts to judge the process's connections. Required before connections() may be called.
  void watch_connections(Judge& judge, std::string who, const ConnectionWatch::Limits& limits) {
    connections_.emplace(judge, std::move(who), limits);
  }
  ConnectionWatch& connections() noexcept { return *connections_; }
  // Starts to judge how often a client sends a fence.
  void watch_fences(Judge& judge, std::string who, Nanos timeout) {
    fences_.emplace(judge, std::move(who), timeout);
  }
  const Holdings& holdings() const noexcept { return holdings_; }
  const std::vector<ConKey>& live() const noexcept { return live_; }
  // Connections opened since the last clear_fresh().
  const std::vector<ConKey>& fresh() const noexcept { return fresh_; }
  void clear_fresh() noexcept { fresh_.clear(); }
  // True if the last connect request of the path asked to join an existing session.
  bool joins(std::size_t path) const noexcept { return joins_[path]; }
  // Number of rkeys in use that were made for single requests.
  std::size_t offers() const noexcept { return offers_.size(); }
  // Number of calls that change something: connect, post, disconnect and similar.
  std::uint64_t acts() const noexcept { return acts_; }
  // Number of events that poll() has returned.
  std::uint64_t taken() const noexcept { return taken_; }
  // Number of rkeys that the peer should have invalidated but left valid without an agreement.
  std::uint64_t left_keys() const noexcept { return left_keys_.left(); }

  Result<Region> allocate(std::size_t bytes) override { return booked(inner_.allocate(bytes)); }
  Result<Region> register_memory(std::span<std::byte> memory) override {
    return booked(inner_.register_memory(memory));
  }
  void release(RegionId id) override {
    ++acts_;
    --holdings_.regions;
    inner_.release(id);
  }
  Result<RemoteKey> make_key(RegionId region, std::size_t offset, std::size_t length) override {
    auto remote_key = inner_.make_key(region, offset, length);
    if (remote_key) ++holdings_.remote_keys;
    return remote_key;
  }
  Result<RemoteKey> make_revocable_key(ConKey key, RegionId region, std::size_t offset,
                                       std::size_t length) override {
    auto remote_key = inner_.make_revocable_key(key, region, offset, length);
    if (remote_key) ++holdings_.remote_keys;
    return remote_key;
  }
  Result<RemoteKey> make_request_key(ConKey key, RegionId region, std::size_t offset,
                                     std::size_t length) override {
    auto remote_key = inner_.make_request_key(key, region, offset, length);
    if (!remote_key) return remote_key;
    ++holdings_.remote_keys;
    offers_.push_back(remote_key->id);
    left_keys_.offered(key, remote_key->id, remote_key->rkey);
    return remote_key;
  }
  void release_key(RemoteKeyId id) override {
    --holdings_.remote_keys;
    std::erase(offers_, id);
    left_keys_.ended(id);
    inner_.release_key(id);
  }
  void connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
               std::span<const std::byte> data) override {
    ++acts_;
    opened(key);
    if (connections_) connections_->asked(key, params.address);
    left_keys_.asked(key, data);
    const auto request = wire::parse_conn_req(data);
    if (request && request.value.cid == 0 && key.place() < kMaxPaths)
      joins_[key.place()] = !request.value.first_conn;
    inner_.connect(key, address, params, data);
  }
  void accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
              std::span<const std::byte> data) override {
    ++acts_;
    opened(key);
    if (crowds_) crowds_->accepted(request, key, now_);
    if (identities_) identities_->accepted(request, key, now_);
    if (connections_) connections_->accepted(key);
    inner_.accept(request, key, params, data);
  }
  void reject(std::uint32_t request, std::span<const std::byte> data) override {
    if (crowds_) crowds_->rejected(request, data, now_);
    if (identities_) identities_->rejected(request);
    inner_.reject(request, data);
  }
  void disconnect(ConKey key) override {
    ++acts_;
    left_keys_.lost(key);
    if (crowds_) crowds_->ended(key);
    if (connections_) connections_->ended(key);
    if (fences_) fences_->ended(key);
    inner_.disconnect(key);
  }
  std::size_t post(std::span<const WorkRequest> work) noexcept override {
    ++acts_;
    const std::size_t taken = inner_.post(work);
    if (fences_)
      for (const WorkRequest& one : work.first(taken)) fences_->posted(one, own_now_);
    return taken;
  }
  std::size_t poll(Nanos now, std::span<FabricEvent> events) noexcept override;

 private:
  Result<Region> booked(Result<Region> region);
  void update_crowd_watch(const FabricEvent& event);
  void hear(const event::ConnectRequested&);
  void update_connection_watch(const FabricEvent& event, Nanos now);
  void closed(ConKey);
  void opened(ConKey key) {
    ++holdings_.connections;
    live_.push_back(key);
    fresh_.push_back(key);
  }

  HeartbeatWatch& watch_;
  ClockRate clock_;
  Holdings holdings_;
  std::vector<ConKey> live_;
  std::vector<ConKey> fresh_;
  std::vector<RemoteKeyId> offers_;
  LeftKeys left_keys_;
  std::array<bool, kMaxPaths> joins_{};  // indexed by path, only for a client
  std::optional<CrowdWatch> crowds_;
  std::optional<IdentityWatch> identities_;
  std::optional<wire::ConnReq> heard_;
  std::uint32_t stranger_ = 0;  // host whose connect requests are not recorded
  std::optional<ConnectionWatch> connections_;
  std::optional<FenceWatch> fences_;
  Nanos now_ = 0;      // true time of the last poll
  Nanos own_now_ = 0;  // time of the last poll, on the process clock
  std::uint64_t acts_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace rtrs::sim
