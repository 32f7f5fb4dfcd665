// The TCP fabric: iWARP over sockets of our own, without a library below it. Every octet of a peer is judged
// by core/iwarp before it acts; docs/fabric.md says what is bounded and how.
#pragma once
#include <memory>

#include "backends/tls/tls.hpp"
#include "core/tcp/tcp_options.hpp"

namespace rtrs::tcp {

struct TlsOptions {
  // With it a client speaks TLS 1.3 and never anything else, and a server takes clients that do. Null: none
  // is encrypted. A client looks at the files before each connection attempt, and reads them again where they
  // changed; files that cannot be used are logged, and the set from before stays in use.
  std::shared_ptr<const tls::Context> context;
  // A server takes clients without TLS too.
  bool plain_too = false;
};

// Raises the soft limit of file descriptors to the hard one: programs that use select(2) must not call it.
// Errors: no_memory (memory or a descriptor, errno says which), fabric_error (no random numbers).
Result<std::unique_ptr<TcpFabric>> open_tcp_fabric(const TcpOptions&, const TlsOptions& = {});

// For connections from now on; those that are there stay. `fabric` is one of open_tcp_fabric(); called from
// the thread that owns it.
void set_tls(TcpFabric& fabric, const TlsOptions&);

// The context in use; null: nothing is encrypted. As set_tls().
std::shared_ptr<const tls::Context> tls_context(TcpFabric& fabric);

}  // namespace rtrs::tcp
