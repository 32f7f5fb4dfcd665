// Base class of fabrics that have one device, no ports, no descriptor to sleep on, and whose keys cannot be
// revoked.
#pragma once
#include "core/fabric/fabric.hpp"

namespace rtrs {

class PlainFabric : public Fabric {
 public:
  std::uint32_t rkey_of(ConKey, const RemoteKey& remote_key) noexcept override { return remote_key.rkey; }
  Result<RemoteKey> make_revocable_key(ConKey, RegionId region, std::size_t offset,
                                       std::size_t length) override {
    return make_key(region, offset, length);
  }
  Result<RemoteKey> make_request_key(ConKey, RegionId region, std::size_t offset,
                                     std::size_t length) override {
    return make_key(region, offset, length);
  }
  std::uint16_t listening_port() const noexcept override { return 0; }
  DevicePort device_of(ConKey) const override { return {}; }
  std::string describe_request(std::uint32_t) const override { return {}; }
  const Capabilities& capabilities_of_request(std::uint32_t) const noexcept override {
    return capabilities();
  }
  std::string identity_of_request(std::uint32_t) const override { return {}; }
  int wait_fd() const noexcept override { return -1; }
  bool try_wait() noexcept override { return false; }
};

}  // namespace rtrs
