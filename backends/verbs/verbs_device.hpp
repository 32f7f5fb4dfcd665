// An opened RDMA device: its objects and its capabilities.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/verbs/verbs.hpp"
#include "backends/verbs/verbs_handles.hpp"
#include "backends/verbs/verbs_limits.hpp"
#include "backends/verbs/verbs_patience.hpp"
#include "core/fabric/capabilities.hpp"

namespace rtrs::verbs {

struct Device;

// Target of an epoll event for a descriptor of a device.
struct Watch {
  enum class Kind : std::uint8_t { completions, trouble };
  Kind kind;
  Device* device;
};

struct DownPort {
  std::uint8_t number;
  Nanos ends;  // time at which the port's connections will be ended unless the port comes up before; kNever:
               // already ended
};

struct Device {
  std::string name;
  std::size_t index = 0;  // index among the devices of the fabric
  ContextHandle context;
  DomainHandle domain;
  // Optional child of `domain`: its queue pairs are used by one thread at a time, so that their calls take no
  // locks.
  ThreadDomainHandle thread;
  DomainHandle of_thread;
  ChannelHandle channel;
  ibv_device_attr attributes{};
  bool soft_roce = false;
  bool windows = false;         // type 1 windows are supported
  bool per_qp_windows = false;  // type 2B windows are supported
  Limits limits;
  Capabilities can;          // capabilities of connections on this device
  bool logged_keys = false;  // the invalidation method was logged
  bool logged_registration = false;
  bool logged_depth = false;
  // Whether ibv_post_send() can bind type 1 windows in a chain with other work. No interface reports this, so
  // the first binding tries it (verbs_post.cpp).
  enum class Chains : std::uint8_t { unknown, tried, yes, no } type_1_chains = Chains::unknown;
  bool gone = false;
  Retries told;          // retry settings in the last log line
  bool suspect = false;  // a removal is suspected; must be checked
  unsigned connections = 0;
  std::vector<DownPort> down;
  Watch completions{Watch::Kind::completions, this};
  Watch trouble{Watch::Kind::trouble, this};

  int access() const noexcept {
    return IBV_ACCESS_LOCAL_WRITE | (windows || per_qp_windows ? IBV_ACCESS_MW_BIND : 0);
  }
  ibv_pd* domain_of_queue_pairs() const noexcept {
    return of_thread != nullptr ? of_thread.get() : domain.get();
  }
  // Returns false if the device has no thread domain or none is available now (errno has the reason); works
  // without one then.
  bool take_thread_domain() noexcept;
  // Returns the completion interrupt for the next completion queue: round robin, starting at a different
  // interrupt in each process.
  int next_vector() const noexcept;
  // Returns the maximum number of work requests of a connection with this many receives.
  std::uint32_t max_work_requests(std::uint32_t receives) const noexcept;
  // Returns nullptr if the device does not exist or cannot be used; the log has the reason. `limits`: result
  // of an earlier examination, which takes some milliseconds.
  static std::unique_ptr<Device> open(const VerbsOptions&, const std::string& name,
                                      const Limits* limits = nullptr);
  TimerKind timers() const noexcept { return timer_kind(attributes.vendor_id, attributes.vendor_part_id); }
  // Returns false if the device was removed, even if no event reported the removal.
  bool answers() const noexcept {
    ibv_device_attr unused;
    return ibv_query_device(context.get(), &unused) != EIO;
  }
};

// Capabilities of a fabric, and the limits of devices by name.
struct DeviceSurvey {
  Capabilities can;
  std::vector<std::pair<std::string, Limits>> limits;
};

// Examines options.device, or the devices of options.addresses, or all devices of the host. The capabilities
// are those that at least one device has. Errors: not_supported, no_permission; the log describes the problem
// and its fix.
Result<DeviceSurvey> survey(const VerbsOptions&);

// Calls options.log if there is one.
void say(const VerbsOptions&, LogLevel, const std::string&);

}  // namespace rtrs::verbs
