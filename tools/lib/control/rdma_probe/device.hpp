// An RDMA device that is probed: what is opened of it, and the port that its tests go over.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/verbs/verbs_handles.hpp"
#include "tools/lib/control/rdma_probe/system.hpp"

namespace rtrs::probe {

struct Device {
  std::string name;
  verbs::ContextHandle context;
  verbs::DomainHandle domain;
  ibv_device_attr attributes{};
  std::uint8_t port = 0;  // the first that is active; 0: none is
  ibv_port_attr port_attributes{};
  int gid_index = 0;
  ibv_gid gid{};

  bool soft_roce() const noexcept;
  bool has_transport() const noexcept;  // InfiniBand or RoCE: iWARP has no writes with immediate
};

std::vector<std::string> device_names();
// nullptr: `why` says why not.
std::unique_ptr<Device> open_device(const System&, const std::string& name, std::string& why);

std::string errno_text(int error);
// "fe80::2:c903:21:f4bd", or "10.0.0.1" of an address of IPv4.
std::string gid_text(const ibv_gid&);

}  // namespace rtrs::probe
