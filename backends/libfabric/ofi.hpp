// The libfabric backend: providers with FI_EP_MSG, FI_RMA and remote CQ data. Tested with `tcp` of libfabric
// 1.17, the default. Its rewrite, `net`, carries IO but leaves descriptors readable for good after a
// connection ended, so that a sleeper spins: see docs/fabric.md.
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
  std::string domain;  // likewise; names a device on hardware providers
  // Up to this many connections poll() asks each directly; with more it asks the kernel which are ready.
  // Direct questions are quicker when most are answered yes, as in busy polling.
  unsigned direct_poll_connections = 2;
  // A client that connected must have sent its connect request after this time, and the whole request within
  // `handshake_stall_ms` of its first byte, or its socket is closed.
  unsigned handshake_timeout_ms = 5000;
  unsigned handshake_stall_ms = 250;
  // Clients that may be between the two at a time; beyond it, or beyond a quarter
  // of the file descriptors that the process may have, the oldest of the address with most are closed.
  unsigned max_handshakes = 256;
  // A TCP connection whose peer acknowledges nothing for this time breaks; 0: after what the kernel takes,
  // many minutes. Has no effect with providers that use no sockets.
  unsigned undelivered_timeout_ms = 30'000;
  // False: only addresses in figures are taken, and no thread looks up names. A server has a thread of its
  // own in any case.
  bool host_names = true;
  // Called from the thread that owns the fabric and from the listener thread, never by two at once.
  std::function<void(LogLevel, const std::string&)> log;
};

struct OfiStats {
  std::uint64_t discarded_work = 0;       // work requests not completed when their connection ended
  std::uint64_t anonymous_errors = 0;     // error completions that named no work request
  std::uint64_t reaped_handshakes = 0;    // sockets closed because no connect request came
  std::uint64_t dropped_completions = 0;  // arrived after the connection was reported lost
};

class OfiFabric : public PlainFabric {
 public:
  virtual OfiStats stats() const noexcept = 0;
};

// Errors: not_supported (no libfabric.so.1 or no such provider, or it lacks something; the log says what),
// no_memory, fabric_error. The first call of a process takes 0.3 s: it loads libfabric, whose PSM libraries
// sleep on Debian, and which then searches for providers.
Result<std::unique_ptr<OfiFabric>> open_ofi_fabric(const OfiOptions&);

}  // namespace rtrs::ofi
