// A fabric that makes its user look like a foreign client: it sets PREFLUSH on every second block device
// write, without the FUA that Linux adds. The user does not notice, and the guarantees that it gets stay the
// same. The inner fabric must outlive this object.
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
