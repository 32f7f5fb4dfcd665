// Textual path syntax `[src(,|@)]dst`, as accepted by the kernel's map_device and the rnbd tool.
//     10.0.0.2    ip:10.0.0.1@ip:10.0.0.2    10.0.0.1,10.0.0.2    fd00::1@fd00::2    storage1
//     10.0.0.2:7    [fd00::2]:7    gid:fe80::1@gid:fe80::2
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/fabric/fabric.hpp"

namespace rtrs::net {

// Checks only the syntax, not whether the addresses exist. Removes the prefix `ip:`; keeps `gid:`, which only
// the verbs fabric supports. A link-local address needs an interface. The error is a message that quotes the
// text.
tl::expected<PathAddress, std::string> parse_path(std::string_view text, std::uint16_t port);

// True for a link-local IPv6 address without an interface: the system cannot use it.
bool lacks_interface(const std::string& host);

// True if both have the same source, destination and port, regardless of spelling: fd00::1 and FD00:0::1.
// Does not resolve names.
bool same_path(const PathAddress&, const PathAddress&);

// Returns the destination with its port: "10.0.0.2:1234", "[fd00::2]:1234". A port in the text, as
// in 10.0.0.2:7 and [fd00::2]:7, overrides PathAddress::port, as in the fabrics.
std::string endpoint_text(const PathAddress&);
// Returns the port that endpoint_text() prints.
std::uint16_t port_of(const PathAddress&);

// Returns "SRC@DST", or "DST" for a path without a source.
std::string to_text(const PathAddress&);

}  // namespace rtrs::net
