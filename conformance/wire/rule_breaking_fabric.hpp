// A fabric that stands between our own peer and the wire and breaks one rule for it, so that the case of that
// rule can be seen to fail.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/fabric/fabric.hpp"

namespace rtrs::conformance {

class RuleBreakingFabric final : public Fabric {
 public:
  explicit RuleBreakingFabric(Fabric& inner) : inner_(inner) {}
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

  const Capabilities& capabilities() const noexcept override { return inner_.capabilities(); }
  rtrs::Result<Region> allocate(std::size_t bytes) override { return booked(inner_.allocate(bytes)); }
  rtrs::Result<Region> register_memory(std::span<std::byte> memory) override {
    return booked(inner_.register_memory(memory));
  }
  void release(RegionId id) override { inner_.release(id); }
  rtrs::Result<RemoteKey> make_key(RegionId region, std::size_t offset, std::size_t length) override {
    return inner_.make_key(region, offset, length);
  }
  void release_key(RemoteKeyId id) override { inner_.release_key(id); }
  void invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) override {
    inner_.invalidate(key, id, cookie);
  }
  rtrs::Result<std::uint32_t> rebind(ConKey key, RemoteKeyId id) override { return inner_.rebind(key, id); }
  Errc listen(const PathAddress& local) override { return inner_.listen(local); }
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
  std::string describe(ConKey key) const override { return inner_.describe(key); }
  void post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept override {
    inner_.post_receive(key, count, bytes_each);
  }
  std::size_t post(std::span<const WorkRequest> work) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent> events) noexcept override;
  bool try_wait() noexcept override { return inner_.try_wait(); }

 private:
  rtrs::Result<Region> booked(rtrs::Result<Region> region) {
    if (region && regions_.size() <= region->id) regions_.resize(region->id + 1);
    if (region) regions_[region->id] = region->bytes;
    return region;
  }
  std::span<const std::byte> told(std::span<const std::byte> truth, const std::function<void(Bytes&)>& lie);

  Fabric& inner_;
  Bytes told_;
  std::vector<Bytes> heard_;  // valid until the next poll
};

}  // namespace rtrs::conformance
