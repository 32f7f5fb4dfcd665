// The TCP fabric: iWARP over sockets of our own, without a library below it. Every octet of a peer is judged
// by core/iwarp before it acts; docs/fabric.md says what is bounded and how.
#pragma once
#include <memory>

#include "core/tcp/tcp_options.hpp"

namespace rtrs::tcp {

// Raises the soft limit of file descriptors to the hard one: programs that use select(2) must not call it.
// Errors: no_memory (memory or a descriptor), fabric_error (no random numbers).
Result<std::unique_ptr<TcpFabric>> open_tcp_fabric(const TcpOptions&);

}  // namespace rtrs::tcp
