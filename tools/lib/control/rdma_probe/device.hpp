// An RDMA device under test: its open handles, and the port that the tests use.
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
  std::uint8_t port = 0;  // number of the first active port, from 1; 0: no port is active
  ibv_port_attr port_attributes{};
  int gid_index = 0;
  ibv_gid gid{};

  bool soft_roce() const noexcept;
  bool has_transport() const noexcept;  // true for InfiniBand and RoCE; iWARP lacks writes with immediate
};

std::vector<std::string> device_names();
// Returns nullptr on failure; `why` is then the cause.
std::unique_ptr<Device> open_device(const System&, const std::string& name, std::string& why);

std::string errno_text(int error);
// Returns, for example, "fe80::2:c903:21:f4bd", or "10.0.0.1" for an IPv4-mapped address.
std::string gid_text(const ibv_gid&);

}  // namespace rtrs::probe
