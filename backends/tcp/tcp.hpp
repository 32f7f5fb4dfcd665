// The TCP fabric: iWARP over sockets without another library. core/iwarp checks every byte of a peer before
// the byte has an effect; docs/fabric.md lists the limits.
#pragma once
#include <memory>

#include "backends/platform/tls/tls.hpp"
#include "core/tcp/tcp_options.hpp"

namespace rtrs::tcp {

struct TlsOptions {
  // If set, a client uses only TLS 1.3, and a server accepts clients with TLS. Null: no encryption. A client
  // checks the files before each connection attempt and reads changed files again. Files that cannot be used
  // are logged, and the previous set stays in use.
  std::shared_ptr<const tls::Context> context;
  // If true, a server accepts clients without TLS too.
  bool allow_plain = false;
};

// Raises the soft limit of file descriptors to the hard limit: programs that use select(2) must not call it.
// Errors: no_memory (memory or a descriptor, see errno), fabric_error (no random numbers).
Result<std::unique_ptr<TcpFabric>> open_tcp_fabric(const TcpOptions&, const TlsOptions& = {});

// Applies to new connections; existing ones do not change. `fabric` must come from open_tcp_fabric(). Call on
// the thread that owns the fabric.
void set_tls(TcpFabric& fabric, const TlsOptions&);

// Returns the context in use; null: no encryption. Same rules as for set_tls().
std::shared_ptr<const tls::Context> tls_context(TcpFabric& fabric);

}  // namespace rtrs::tcp
