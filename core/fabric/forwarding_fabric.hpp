// Forwards every call to another fabric. Base class of decorators that observe, change or count calls.
#pragma once
#include "core/fabric/fabric.hpp"

namespace rtrs {

class ForwardingFabric : public Fabric {
 public:
  // `inner` must outlive this object.
  explicit ForwardingFabric(Fabric& inner) noexcept : inner_(inner) {}
  // Not copyable: otherwise a decorator constructed around another decorator of the same type would copy it
  // instead of wrapping it.
  ForwardingFabric(const ForwardingFabric&) = delete;
  ForwardingFabric& operator=(const ForwardingFabric&) = delete;

  const Capabilities& capabilities() const noexcept override { return inner_.capabilities(); }
  Result<Region> allocate(std::size_t bytes) override { return known(inner_.allocate(bytes)); }
  Result<Region> register_memory(std::span<std::byte> memory) override {
    return known(inner_.register_memory(memory));
  }
  void release(RegionId id) override { inner_.release(id); }
  Result<RemoteKey> make_key(RegionId region, std::size_t offset, std::size_t length) override {
    return inner_.make_key(region, offset, length);
  }
  void release_key(RemoteKeyId id) override { inner_.release_key(id); }
  std::uint32_t rkey_of(ConKey key, const RemoteKey& remote_key) noexcept override {
    return inner_.rkey_of(key, remote_key);
  }
  Result<RemoteKey> make_revocable_key(ConKey key, RegionId region, std::size_t offset,
                                       std::size_t length) override {
    return inner_.make_revocable_key(key, region, offset, length);
  }
  Result<RemoteKey> make_request_key(ConKey key, RegionId region, std::size_t offset,
                                     std::size_t length) override {
    return inner_.make_request_key(key, region, offset, length);
  }
  void invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) override {
    inner_.invalidate(key, id, cookie);
  }
  Result<std::uint32_t> rebind(ConKey key, RemoteKeyId id) override { return inner_.rebind(key, id); }
  Errc listen(const PathAddress& local) override { return inner_.listen(local); }
  std::uint16_t listening_port() const noexcept override { return inner_.listening_port(); }
  void connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
               std::span<const std::byte> private_data) override {
    inner_.connect(key, address, params, private_data);
  }
  void accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
              std::span<const std::byte> private_data) override {
    inner_.accept(request, key, params, private_data);
  }
  void reject(std::uint32_t request, std::span<const std::byte> private_data) override {
    inner_.reject(request, private_data);
  }
  void disconnect(ConKey key) override { inner_.disconnect(key); }
  std::string describe(ConKey key) const override { return inner_.describe(key); }
  DevicePort device_of(ConKey key) const override { return inner_.device_of(key); }
  const Capabilities& capabilities_of_request(std::uint32_t request) const noexcept override {
    return inner_.capabilities_of_request(request);
  }
  std::string identity_of_request(std::uint32_t request) const override {
    return inner_.identity_of_request(request);
  }
  std::string refusal_of_request(std::uint32_t request) const override {
    return inner_.refusal_of_request(request);
  }
  std::string describe_request(std::uint32_t request) const override {
    return inner_.describe_request(request);
  }
  void post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept override {
    inner_.post_receive(key, count, bytes_each);
  }
  std::size_t post(std::span<const WorkRequest> work) noexcept override { return inner_.post(work); }
  std::size_t poll(Nanos now, std::span<FabricEvent> events) noexcept override {
    return inner_.poll(now, events);
  }
  int wait_fd() const noexcept override { return inner_.wait_fd(); }
  bool try_wait() noexcept override { return inner_.try_wait(); }

 protected:
  // Adds the inner fabric's region to this fabric's table, which bytes() uses.
  Result<Region> known(Result<Region> region) {
    if (!region) return region;
    if (regions_.size() <= region->id) regions_.resize(region->id + 1);
    regions_[region->id] = region->bytes;
    return region;
  }

  Fabric& inner_;
};

}  // namespace rtrs
