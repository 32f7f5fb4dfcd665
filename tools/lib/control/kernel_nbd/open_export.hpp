// Opens a connection to an NBD export. The connection can be handed over to the kernel.
#pragma once
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/kernel_nbd/descriptor.hpp"
#include "tools/lib/control/kernel_nbd/handshake.hpp"

namespace rtrs::kernel_nbd {

struct OpenExport {
  Descriptor fd;
  Export what;
};
struct NoExport {
  std::string why;       // cause, as a human-readable message
  bool is_dead = false;  // no process of this network namespace has the socket open
};
using OpenResult = tl::expected<OpenExport, NoExport>;

// Connects and does the NBD handshake within `patience`. Calls `then` once, but never before this function
// has returned.
void open_export(boost::asio::io_context&, const std::string& socket, const std::string& name,
                 std::chrono::milliseconds patience, std::function<void(OpenResult)> then);
// Like open_export() above, but blocks and returns the result.
OpenResult open_export(const std::string& socket, const std::string& name,
                       std::chrono::milliseconds patience);

}  // namespace rtrs::kernel_nbd
