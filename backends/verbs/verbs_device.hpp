// An opened RDMA device: what everything on it is made of, and what it can do.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/verbs/verbs.hpp"
#include "backends/verbs/verbs_handles.hpp"
#include "backends/verbs/verbs_patience.hpp"
#include "core/fabric/capabilities.hpp"

namespace rtrs::verbs {

struct Device;

// What the poller is told by a descriptor of a device.
struct Watch {
  enum class Kind : std::uint8_t { completions, trouble };
  Kind kind;
  Device* device;
};

struct DownPort {
  std::uint8_t number;
  Nanos ends;  // its connections, when it is down until then; kNever: they have
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
  bool gone = false;
  Retries told;          // to the log
  bool suspect = false;  // to be asked whether it is there
  unsigned connections = 0;
  std::vector<DownPort> down;
  Watch completions{Watch::Kind::completions, this};
  Watch trouble{Watch::Kind::trouble, this};

  int access() const noexcept {
    return IBV_ACCESS_LOCAL_WRITE | (windows || per_qp_windows ? IBV_ACCESS_MW_BIND : 0);
  }
  TimerKind timers() const noexcept { return timer_kind(attributes.vendor_id, attributes.vendor_part_id); }
  // False: it was removed, whether that was told or not.
  bool answers() const noexcept {
    ibv_device_attr unused;
    return ibv_query_device(context.get(), &unused) != EIO;
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
