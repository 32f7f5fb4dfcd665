// A fabric that stands between our own peer and the wire and breaks one rule for it, so that the case of that
// rule can be seen to fail.
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

  // --- lies; empty: the truth ---
  std::function<void(Bytes&)> accept_lie;          // private data of what it accepts
  std::function<void(Bytes&)> reject_lie;          // likewise
  std::function<void(Bytes&)> connect_lie;         // of what it asks for
  std::function<void(Bytes&)> hear;                // private data of requests and accepts that it sees
  std::function<void(Bytes&)> message_lie;         // SENDs without immediate
  std::function<unsigned(WorkRequest&)> work_lie;  // how often it is posted
  std::function<bool(const FabricEvent&)> deaf;    // true: the event is not seen
  bool clings = false;                             // never disconnects

  void connect(ConKey key, const PathAddress& to, const ConnectionParams& params,
               std::span<const std::byte> data) override {
    inner_.connect(key, to, params, told(data, connect_lie));
  }
  void accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
              std::span<const std::byte> data) override {
    inner_.accept(request, key, params, told(data, accept_lie));
  }
  void reject(std::uint32_t request, std::span<const std::byte> data) override {
    inner_.reject(request, told(data, reject_lie));
  }
  void disconnect(ConKey key) override {
    if (!clings) inner_.disconnect(key);
  }
  void release(RegionId id) override {
    regions_[id] = {};
    inner_.release(id);
  }
  // Regions of the user that are `bytes` long.
  std::vector<RegionId> regions_of(std::size_t bytes) const;
  std::size_t post(std::span<const WorkRequest> work) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent> events) noexcept override;

 private:
  std::span<const std::byte> told(std::span<const std::byte> truth, const std::function<void(Bytes&)>& lie);

  Bytes told_;
  std::vector<Bytes> heard_;  // valid until the next poll
};

}  // namespace rtrs::conformance
