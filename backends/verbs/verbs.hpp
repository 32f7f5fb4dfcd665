// The verbs backend: RDMA hardware and soft-RoCE through libibverbs and librdmacm. Connections may use
// several devices at the same time. docs/fabric.md lists the system requirements.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/fabric/fabric.hpp"

namespace rtrs::verbs {

// unmet: the device lacks a requested feature; logged as a warning once per device.
enum class LogLevel : std::uint8_t { debug, info, warning, error, unmet };

// How a key is invalidated before its memory is released. docs/security.md describes the protection and cost
// of each.
enum class Invalidation : std::uint8_t {
  automatic,     // windows on devices that support them; elsewhere off, with a warning
  windows,       // type 1 memory windows: one more work request in each direction. At least one device must
                 // support them
  registration,  // deregister and register again: one system call each
  off,           // keys stay valid as long as their path
};

// API used to post work requests. docs/fabric.md lists the requirements of each.
enum class Posting : std::uint8_t {
  send,       // ibv_post_send(), which every library supports
  automatic,  // ibv_wr_*() if the library supports it for all posted operations; otherwise `send`
  calls,      // like `automatic`, but logs a warning for devices whose library does not support ibv_wr_*()
};

struct VerbsOptions {
  std::string device;  // RDMA device such as "mlx5_0" or "rxe0"; empty: any device that has the address
  // Local addresses that will be listened on, if known. While opening, the fabric examines only the devices
  // of these addresses; with a wildcard address or an empty list, it examines all devices of the host.
  std::vector<std::string> addresses;
  Invalidation invalidation = Invalidation::automatic;
  // Retransmissions of a packet before the connection is lost, 0 .. 7. Soft-RoCE treats 7 as infinite.
  std::uint8_t retry_count = 6;
  // Retransmission timeout, 1 .. 31: 4.096 us x 2^ack_timeout. 0: the value negotiated by the connection
  // manager (17, about 0.5 s).
  std::uint8_t ack_timeout = 0;
  // Traffic class byte of the IP header (DSCP x 4) of all sent packets, and of packets from the peers of
  // connections opened here. 0: set by the peer or the host.
  std::uint8_t tos = 0;
  // The caller closes connections whose peer is silent for this time; 0: unknown. Used only for the log.
  Nanos dead_peer_time = 0;
  // Time that a peer must wait before it retries if no receive was posted here. InfiniBand encoding, 0 .. 31:
  // 12 is 0.64 ms, 0 is 655 ms.
  std::uint8_t min_rnr_timer = 12;
  unsigned resolve_timeout_ms = 2000;  // time limit to resolve an address, and again to resolve its route
  // Time in ms to wait for a peer to confirm the end of a connection; at least 10 s, because the peer may be
  // busy.
  unsigned disconnect_timeout_ms = 10'000;
  // False: only numeric addresses are accepted, and the thread that resolves host names is not started.
  bool host_names = true;
  // Registers regions so that the device may write over the bus in any order, which is faster on some hosts.
  // This is safe because memory is read only after a completion, and a completion makes all earlier writes
  // visible. Devices and kernels without support ignore it.
  bool relaxed_ordering = false;
  // Creates queue pairs in a thread domain, so that the device's library takes no locks for them. This is
  // safe because only one thread at a time uses a fabric. Logs a message for devices without thread domains.
  bool thread_domains = false;
  Posting posting = Posting::send;
  // Called on the thread that owns the fabric.
  std::function<void(LogLevel, const std::string&)> log;
};

struct VerbsStats {
  std::uint64_t discarded_work = 0;       // work requests not completed when their connection ended
  std::uint64_t dropped_completions = 0;  // completions that arrived after the connection was reported lost
  std::uint64_t unconfirmed_disconnects = 0;  // peers that did not confirm the end of a connection
  std::uint64_t removed_devices = 0;
};

class VerbsFabric : public Fabric {
 public:
  virtual VerbsStats stats() const noexcept = 0;
};

// Sets RDMAV_ALLOW_DISASSOC_DESTROY=1 in the environment unless it is set, so that libibverbs frees the
// objects of a removed device; otherwise they stay until the process ends. Call at program start, before any
// thread is started, because libibverbs reads the variable at first use. A library inside another program
// must not call it, but leave the variable to the user.
void expect_removal() noexcept;

// Errors: not_supported (no RDMA device, or none that supports RTRS), no_permission, no_memory, fabric_error.
// The log describes the problem and its fix.
Result<std::unique_ptr<VerbsFabric>> open_verbs_fabric(const VerbsOptions&);

}  // namespace rtrs::verbs
