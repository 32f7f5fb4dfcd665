// A test fabric that records requests and replays given events.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/fabric/plain_fabric.hpp"

namespace rtrs::keyed {

class Wire final : public PlainFabric {
 public:
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<Region> allocate(std::size_t) override { return tl::make_unexpected(Errc::no_memory); }
  Result<Region> register_memory(std::span<std::byte>) override {
    return tl::make_unexpected(Errc::no_memory);
  }
  void release(RegionId) override {}
  Result<RemoteKey> make_key(RegionId, std::size_t, std::size_t) override {
    return tl::make_unexpected(Errc::no_memory);
  }
  void release_key(RemoteKeyId) override {}
  void invalidate(ConKey, RemoteKeyId, std::uint64_t) override {}
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override {
    return tl::make_unexpected(Errc::not_supported);
  }
  Errc listen(const PathAddress&) override { return Errc::ok; }
  void connect(ConKey, const PathAddress&, const ConnectionParams&,
               std::span<const std::byte> data) override {
    sent.assign(data.begin(), data.end());
  }
  void accept(std::uint32_t, ConKey, const ConnectionParams&, std::span<const std::byte> data) override {
    sent.assign(data.begin(), data.end());
  }
  void reject(std::uint32_t, std::span<const std::byte> data) override {
    sent.assign(data.begin(), data.end());
  }
  void disconnect(ConKey) override {}
  std::string describe(ConKey) const override { return {}; }
  std::string identity_of_request(std::uint32_t) const override { return "of the fabric"; }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}
  std::size_t post(std::span<const WorkRequest> work) noexcept override { return work.size(); }
  std::size_t poll(Nanos, std::span<FabricEvent> out) noexcept override {
    const std::size_t count = std::min(out.size(), events.size());
    std::copy_n(events.begin(), count, out.begin());
    events.clear();
    return count;
  }

  std::vector<std::byte> sent;
  std::vector<FabricEvent> events;

 private:
  Capabilities capabilities_;
};

}  // namespace rtrs::keyed
