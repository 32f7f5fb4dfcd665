// An opened RDMA device: what everything on it is made of, and what it can do.
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
  // Over it, where asked for: queue pairs that one thread at a time uses, so that their calls take no locks.
  ThreadDomainHandle thread;
  DomainHandle of_thread;
  ChannelHandle channel;
  ibv_device_attr attributes{};
  bool soft_roce = false;
  bool windows = false;         // type 1
  bool per_qp_windows = false;  // type 2B
  Limits limits;
  Capabilities can;           // of its connections
  bool told_of_keys = false;  // to the log
  bool told_of_registration = false;
  bool told_of_depth = false;
  // Whether windows of type 1 can be bound by ibv_post_send(), in a chain with other work, which no interface
  // tells: the first binding tries it (verbs_post.cpp).
  enum class Chains : std::uint8_t { unknown, tried, yes, no } type_1_chains = Chains::unknown;
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
  ibv_pd* domain_of_queue_pairs() const noexcept {
    return of_thread != nullptr ? of_thread.get() : domain.get();
  }
  // False: the device has none, or not now (errno says why), and goes on without.
  bool take_thread_domain() noexcept;
  // The interrupt of the next completion queue: in turn, and each process begins with another.
  int next_vector() const noexcept;
  // Work requests of a connection with so many receives.
  std::uint32_t most_work(std::uint32_t receives) const noexcept;
  // nullptr when there is no such device, or not any more; the log says which. `limits`: from an earlier look
  // at it, which takes some milliseconds.
  static std::unique_ptr<Device> open(const VerbsOptions&, const std::string& name,
                                      const Limits* limits = nullptr);
  TimerKind timers() const noexcept { return timer_kind(attributes.vendor_id, attributes.vendor_part_id); }
  // False: it was removed, whether that was told or not.
  bool answers() const noexcept {
    ibv_device_attr unused;
    return ibv_query_device(context.get(), &unused) != EIO;
  }
};

// What a fabric can do, and what is known of devices by their names.
struct Surveyed {
  Capabilities can;
  std::vector<std::pair<std::string, Limits>> limits;
};

// What a fabric can do over options.device, or over the devices of options.addresses, or over any of the
// machine: what one of them can.
// Errors: not_supported, no_permission; the log says what is wrong and what mends it.
Result<Surveyed> survey(const VerbsOptions&);

// Calls options.log if there is one.
void say(const VerbsOptions&, LogLevel, const std::string&);

}  // namespace rtrs::verbs
