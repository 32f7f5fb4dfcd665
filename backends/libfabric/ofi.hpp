// The libfabric backend: providers with FI_EP_MSG, FI_RMA and remote CQ data. Tested with `tcp` of libfabric
// 1.17, the default. The provider `net`, a rewrite of `tcp`, carries IO but leaves descriptors readable
// forever after a connection has ended, so that a sleeping fabric wakes continuously: see docs/fabric.md.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/fabric/plain_fabric.hpp"

namespace rtrs::ofi {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

struct OfiOptions {
  std::string provider = "tcp";
  std::string fabric;  // empty: the first one the provider offers
  std::string domain;  // empty: the first one the provider offers; names a device on hardware providers
  // Up to this number of connections, poll() reads each one directly; with more, it asks the kernel which are
  // ready. Direct reads are faster if most find something, as in busy polling.
  unsigned direct_poll_connections = 2;
  // A client's socket is closed unless its complete connect request arrives within this time (ms) after
  // connecting, and within `handshake_stall_ms` after its first byte.
  unsigned handshake_timeout_ms = 5000;
  unsigned handshake_stall_ms = 250;
  // Maximum number of clients whose connect request has not arrived in full. If there are more, or if they
  // use more than a quarter of the process's file descriptors, the oldest client of the address with the most
  // clients is closed.
  unsigned max_handshakes = 256;
  // A TCP connection fails if its peer acknowledges nothing for this time (ms); 0: the kernel's default, many
  // minutes. No effect with providers that use no sockets.
  unsigned undelivered_timeout_ms = 30'000;
  // False: only numeric addresses are accepted, and no thread resolves names. A server always has a listener
  // thread.
  bool host_names = true;
  // Called on the thread that owns the fabric and on the listener thread, never concurrently.
  std::function<void(LogLevel, const std::string&)> log;
};

struct OfiStats {
  std::uint64_t discarded_work = 0;       // work requests not completed when their connection ended
  std::uint64_t anonymous_errors = 0;     // error completions without a work request
  std::uint64_t reaped_handshakes = 0;    // sockets closed because no connect request arrived
  std::uint64_t dropped_completions = 0;  // completions that arrived after the connection was reported lost
};

class OfiFabric : public PlainFabric {
 public:
  virtual OfiStats stats() const noexcept = 0;
};

// Errors: not_supported (no libfabric.so.1, no such provider, or a feature is missing; logged), no_memory,
// fabric_error. The first call of a process takes 0.3 s to load libfabric, whose PSM libraries sleep on
// Debian, and to search for providers.
Result<std::unique_ptr<OfiFabric>> open_ofi_fabric(const OfiOptions&);

}  // namespace rtrs::ofi
