// Paths as people write them: `[src(,|@)]dst`, as the kernel's map_device and the rnbd tool take them.
//     10.0.0.2    ip:10.0.0.1@ip:10.0.0.2    10.0.0.1,10.0.0.2    fd00::1@fd00::2    storage1
//     10.0.0.2:7    [fd00::2]:7    gid:fe80::1@gid:fe80::2
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/fabric/fabric.hpp"

namespace rtrs::net {

// Checks the form only, not whether the addresses exist. The prefix `ip:` is dropped; `gid:` stays, and is an
// address to the verbs fabric alone. A link-local address needs its interface.
// The error is a sentence that quotes the text.
tl::expected<PathAddress, std::string> parse_path(std::string_view text, std::uint16_t port);

// True for a link-local IPv6 address without an interface: the system cannot use it.
bool lacks_interface(const std::string& host);

// Whether both name the same source, destination and port, in whatever spelling: fd00::1 and FD00:0::1.
// Nothing is resolved.
bool same_path(const PathAddress&, const PathAddress&);

// Where the path connects to: "10.0.0.2:1234", "[fd00::2]:1234". A port behind the address, as in 10.0.0.2:7
// and [fd00::2]:7, has precedence over PathAddress::port, as in the fabrics.
std::string endpoint_text(const PathAddress&);
// The port of that.
std::uint16_t port_of(const PathAddress&);

// "src@dst", or "dst" without a source.
std::string to_text(const PathAddress&);

}  // namespace rtrs::net
