// The verbs backend: RDMA hardware and soft-RoCE through libibverbs and librdmacm. Connections may lead over
// several devices at a time. docs/fabric.md says what it needs of the system.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/fabric/fabric.hpp"

namespace rtrs::verbs {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

// How a key dies before its memory is released. docs/security.md says what each protects and costs.
enum class Invalidation : std::uint8_t {
  automatic,     // windows where every device has them, else registration
  windows,       // type 1 memory windows: one more work request each way
  registration,  // a registration is undone and made anew: a system call each way
  off,           // keys live as long as their path
};

struct VerbsOptions {
  std::string device;  // of RDMA, such as "mlx5_0" or "rxe0"; empty: whichever has the address
  Invalidation invalidation = Invalidation::automatic;
  // How often a packet is sent again before the connection is lost, 0 .. 7, by the timeout that connecting
  // has agreed on (about 0.5 s). 7 means for ever to soft-RoCE.
  std::uint8_t retry_count = 6;
  // How long a peer waits that found no receive here, as InfiniBand encodes it, 0 .. 31: 12 is 0.64 ms, 0 is
  // 655 ms.
  std::uint8_t min_rnr_timer = 12;
  unsigned resolve_timeout_ms = 2000;  // for an address, and again for the route to it
  // How long a peer is asked to confirm the end of a connection; at least 10 s, for it may be busy.
  unsigned farewell_timeout_ms = 10'000;
  // Regions are registered so that the device may write to them over the bus in any order, which some hosts
  // are faster by. Nothing here looks at memory before a completion says that something came, and a
  // completion makes all that came before it visible. Devices and kernels that do not know it ignore it.
  bool relaxed_ordering = false;
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

// Errors: not_supported (no RDMA device, or none that can carry RTRS), no_permission, no_memory,
// fabric_error. The log says what is wrong and what mends it.
Result<std::unique_ptr<VerbsFabric>> open_verbs_fabric(const VerbsOptions&);

}  // namespace rtrs::verbs
