// Sets PREFLUSH on every second block device write, without the FUA that Linux adds, as a client other than
// Linux may do. The user of the fabric is not informed and keeps all guarantees. The inner fabric must
// outlive this object.
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
