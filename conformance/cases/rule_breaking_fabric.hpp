// A fabric between the urtrs peer and the wire that breaks one rule, to show that the case for that rule
// fails.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"

namespace rtrs::conformance {

class RuleBreakingFabric final : public ForwardingFabric {
 public:
  explicit RuleBreakingFabric(Fabric& inner) : ForwardingFabric(inner) {}
  using Bytes = std::vector<std::byte>;

  // --- misbehaviour; an empty function changes nothing ---
  std::function<void(Bytes&)> change_accept;    // changes the private data of accepts
  std::function<void(Bytes&)> change_reject;    // changes the private data of rejects
  std::function<void(Bytes&)> change_connect;   // changes the private data of connect requests
  std::function<void(Bytes&)> change_received;  // changes the private data of received requests and accepts
  std::function<void(Bytes&)> change_message;   // changes sent messages without immediate
  std::function<unsigned(WorkRequest&)> change_work;  // changes work; returns how many times to post the work
  std::function<bool(const FabricEvent&)> drop_event;  // returns true to drop the event
  bool never_disconnects = false;

  void connect(ConKey key, const PathAddress& to, const ConnectionParams& params,
               std::span<const std::byte> data) override {
    inner_.connect(key, to, params, changed(data, change_connect));
  }
  void accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
              std::span<const std::byte> data) override {
    inner_.accept(request, key, params, changed(data, change_accept));
  }
  void reject(std::uint32_t request, std::span<const std::byte> data) override {
    inner_.reject(request, changed(data, change_reject));
  }
  void disconnect(ConKey key) override {
    if (!never_disconnects) inner_.disconnect(key);
  }
  void release(RegionId id) override {
    regions_[id] = {};
    inner_.release(id);
  }
  // The user's regions of exactly `bytes` bytes.
  std::vector<RegionId> regions_of(std::size_t bytes) const;
  std::size_t post(std::span<const WorkRequest> work) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent> events) noexcept override;

 private:
  std::span<const std::byte> changed(std::span<const std::byte> truth,
                                     const std::function<void(Bytes&)>& change);

  Bytes changed_;
  std::vector<Bytes> received_;  // valid until the next poll
};

}  // namespace rtrs::conformance
