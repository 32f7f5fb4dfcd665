// A fabric whose events are supplied by the test.
#pragma once
#include <algorithm>
#include <cstddef>
#include <deque>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "core/fabric/plain_fabric.hpp"
#include "core/wire/imm.hpp"

namespace rtrs::test {

// Fabric that holds events until a test releases them, a few at a time. Uses process memory; posted work
// reaches no peer.
class HeldFabric : public PlainFabric {
 public:
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<Region> allocate(std::size_t size) override {
    memory.emplace_back(size);
    return Region{static_cast<RegionId>(memory.size() - 1), memory.back()};
  }
  Result<Region> register_memory(std::span<std::byte>) override {
    return tl::make_unexpected(Errc::no_memory);
  }
  void release(RegionId) override {}
  Result<RemoteKey> make_key(RegionId, std::size_t, std::size_t) override { return RemoteKey{0, 1, 0}; }
  void release_key(RemoteKeyId) override {}
  void invalidate(ConKey, RemoteKeyId, std::uint64_t) override {}
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override {
    return tl::make_unexpected(Errc::not_supported);
  }
  Errc listen(const PathAddress&) override { return Errc::ok; }
  void connect(ConKey key, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override {
    connects.push_back(key);
  }
  void accept(std::uint32_t, ConKey key, const ConnectionParams&, std::span<const std::byte>) override {
    accepts.push_back(key);
  }
  void reject(std::uint32_t request, std::span<const std::byte>) override { rejects.push_back(request); }
  void disconnect(ConKey) override {}
  std::string describe(ConKey) const override {
    if (no_memory) throw std::bad_alloc();
    return "held";
  }
  DevicePort device_of(ConKey) const override {
    if (no_device_memory) throw std::bad_alloc();
    return {};
  }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}
  std::size_t post(std::span<const WorkRequest> work) noexcept override {
    for (const WorkRequest& one : work)
      if (one.op == WorkRequest::Op::write_imm && wire::imm_type(one.imm) == wire::ImmType::io_req)
        requested.push_back(one.key);
    return work.size();
  }
  std::size_t poll(Nanos, std::span<FabricEvent> out) noexcept override {
    // Simulates a fabric that checks idle connections only rarely.
    if (blind_polls != 0) {
      --blind_polls;
      return 0;
    }
    const std::size_t count = std::min({out.size(), max_per_poll, events.size()});
    std::copy_n(events.begin(), count, out.begin());
    events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  bool try_wait() noexcept override {
    blind_polls = 0;
    return events.empty();
  }

  std::vector<ConKey> connects, accepts;
  std::vector<std::uint32_t> rejects;
  std::vector<ConKey> requested;  // connection of each posted request
  std::deque<FabricEvent> events;
  std::size_t max_per_poll = 64;
  unsigned blind_polls = 0;
  bool no_memory = false;                     // describe() throws bad_alloc
  bool no_device_memory = false;              // device_of() throws bad_alloc
  std::deque<std::vector<std::byte>> memory;  // indexed by region

 private:
  Capabilities capabilities_;
};

}  // namespace rtrs::test
