// The verbs backend: RDMA hardware and soft-RoCE through libibverbs and librdmacm. Connections may lead over
// several devices at a time. docs/fabric.md says what it needs of the system.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/fabric/fabric.hpp"

namespace rtrs::verbs {

// unmet: something that was asked for and the device has not, a warning that comes once a device.
enum class LogLevel : std::uint8_t { debug, info, warning, error, unmet };

// How a key dies before its memory is released. docs/security.md says what each protects and costs.
enum class Invalidation : std::uint8_t {
  automatic,     // windows on the devices that have them; off on others, with a warning
  windows,       // type 1 memory windows: one more work request each way. Some device must have them
  registration,  // a registration is undone and made anew: a system call each way
  off,           // keys live as long as their path
};

// How work requests are handed to the library of a device. docs/fabric.md says what each needs.
enum class Posting : std::uint8_t {
  send,       // by ibv_post_send(), which every one has
  automatic,  // by ibv_wr_*() where the library has them for all that is posted, elsewhere as before
  calls,      // the same, and the log warns of a device whose library has them not
};

struct VerbsOptions {
  std::string device;  // of RDMA, such as "mlx5_0" or "rxe0"; empty: whichever has the address
  // Of this host that will be listened on, if known. While it is opened, the fabric looks at their devices
  // alone; with a wildcard among them, or with none, at all of the host.
  std::vector<std::string> addresses;
  Invalidation invalidation = Invalidation::automatic;
  // How often a packet is sent again before the connection is lost, 0 .. 7. 7 means for ever to soft-RoCE.
  std::uint8_t retry_count = 6;
  // After which time, 1 .. 31: 4.096 us x 2^ack_timeout. 0: what connecting agrees on (17, about 0.5 s).
  std::uint8_t ack_timeout = 0;
  // Of the IP header (DSCP x 4) of all that is sent, and of what peers of connections that are made here
  // send; 0: as the peer or the host says.
  std::uint8_t tos = 0;
  // A peer that says nothing for this time is given up by the caller; 0: it does not say. Only for the log.
  Nanos dead_peer_time = 0;
  // How long a peer waits that found no receive here, as InfiniBand encodes it, 0 .. 31: 12 is 0.64 ms, 0 is
  // 655 ms.
  std::uint8_t min_rnr_timer = 12;
  unsigned resolve_timeout_ms = 2000;  // for an address, and again for the route to it
  // How long a peer is asked to confirm the end of a connection; at least 10 s, for it may be busy.
  unsigned farewell_timeout_ms = 10'000;
  // False: only addresses in figures are taken. Names are looked up by a thread; without them there is none.
  bool host_names = true;
  // Regions are registered so that the device may write to them over the bus in any order, which some hosts
  // are faster by. Nothing here looks at memory before a completion says that something came, and a
  // completion makes all that came before it visible. Devices and kernels that do not know it ignore it.
  bool relaxed_ordering = false;
  // Queue pairs are made in a thread domain: the library of the device takes no locks for them, which nobody
  // contends for, because one thread at a time uses a fabric. Where the device has none the log says so.
  bool thread_domains = false;
  Posting posting = Posting::send;
  // Called from the thread that owns the fabric.
  std::function<void(LogLevel, const std::string&)> log;
};

struct VerbsStats {
  std::uint64_t discarded_work = 0;        // work requests not completed when their connection ended
  std::uint64_t dropped_completions = 0;   // arrived after the connection was reported lost
  std::uint64_t unanswered_farewells = 0;  // peers that did not confirm the end of a connection
  std::uint64_t removed_devices = 0;
};

class VerbsFabric : public Fabric {
 public:
  virtual VerbsStats stats() const noexcept = 0;
};

// For a program, before it starts a thread: libibverbs, which asks the environment at its first use, shall
// take objects of a device that was removed back. Otherwise they stay until the process ends. Whoever is a
// guest in another program's process leaves that to its user: RDMAV_ALLOW_DISASSOC_DESTROY=1.
void expect_removal() noexcept;

// Errors: not_supported (no RDMA device, or none that can carry RTRS), no_permission, no_memory,
// fabric_error. The log says what is wrong and what mends it.
Result<std::unique_ptr<VerbsFabric>> open_verbs_fabric(const VerbsOptions&);

}  // namespace rtrs::verbs
