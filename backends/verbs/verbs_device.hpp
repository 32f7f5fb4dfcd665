// An opened RDMA device: what everything on it is made of, and what it can do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/verbs/verbs.hpp"
#include "backends/verbs/verbs_handles.hpp"
#include "core/fabric/capabilities.hpp"

namespace rtrs::verbs {

struct Device;

// What the poller is told by a descriptor of a device.
struct Watch {
  enum class Kind : std::uint8_t { completions, trouble };
  Kind kind;
  Device* device;
};

struct Device {
  std::string name;
  std::size_t index = 0;  // among the devices of the fabric
  ContextHandle context;
  DomainHandle domain;
  ChannelHandle channel;
  ibv_device_attr attributes{};
  bool soft_roce = false;
  bool windows = false;         // type 1
  bool per_qp_windows = false;  // type 2B
  // Whether windows of type 1 can be bound by ibv_post_send(), in a chain with other work, which no interface
  // tells: the first binding tries it (verbs_post.cpp).
  enum class Chains : std::uint8_t { unknown, tried, yes, no } type_1_chains = Chains::unknown;
  bool gone = false;
  unsigned connections = 0;
  Watch completions{Watch::Kind::completions, this};
  Watch trouble{Watch::Kind::trouble, this};

  int access() const noexcept {
    return IBV_ACCESS_LOCAL_WRITE | (windows || per_qp_windows ? IBV_ACCESS_MW_BIND : 0);
  }
  // nullptr when there is no such device, or not any more; the log says which.
  static std::unique_ptr<Device> open(const VerbsOptions&, const std::string& name);
};

// What a fabric can do whose connections may lead over any device of the machine, or over options.device.
// Errors: not_supported, no_permission; the log says what is wrong and what mends it.
Result<Capabilities> survey(const VerbsOptions&);

// Calls options.log if there is one.
void say(const VerbsOptions&, LogLevel, const std::string&);

}  // namespace rtrs::verbs
