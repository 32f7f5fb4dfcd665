// A fabric that makes of its user a foreign client: every second write of a block device is marked with
// PREFLUSH, without the FUA that Linux adds. The user does not know, and is promised no less. The fabric
// behind it must outlive it.
#pragma once
#include "core/fabric/forwarding_fabric.hpp"

namespace rtrs::sim {

class PreflushFabric final : public ForwardingFabric {
 public:
  using ForwardingFabric::ForwardingFabric;
  std::size_t post(std::span<const WorkRequest>) noexcept override;

 private:
  void mark(const WorkRequest&);
};

}  // namespace rtrs::sim
