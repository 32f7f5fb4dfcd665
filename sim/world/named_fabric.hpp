// A name service in front of a simulated network: "n0.p1|n0.p9" is a host name with these two addresses. The
// inner fabric must outlive this object.
#pragma once
#include <string>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"

namespace rtrs::sim {

class NamedFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  void connect(ConKey, const PathAddress&, const ConnectionParams&,
               std::span<const std::byte> private_data) override;
  void disconnect(ConKey) override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;
  bool try_wait() noexcept override { return found_.empty() && inner_.try_wait(); }
  // True if poll() has a result of a name lookup to report.
  bool has_events() const noexcept { return !found_.empty(); }

 private:
  // Address that the first connection of a path's last attempt used; later connections must use it too.
  struct Pin {
    std::uint32_t epoch = 0;
    std::string destination;
  };
  std::vector<Pin> pins_;
  std::vector<event::AddressesFound> found_;
};

}  // namespace rtrs::sim
