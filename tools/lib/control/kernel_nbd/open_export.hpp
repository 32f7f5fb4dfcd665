// Opens a connection to an NBD export that can be handed over to the kernel.
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
  std::string why;       // cause, as a sentence
  bool is_dead = false;  // no process of this network namespace has the socket
};
using OpenResult = tl::expected<OpenExport, NoExport>;

// Connects and does the NBD handshake within `patience`. Calls `then` once, after this function has returned.
void open_export(boost::asio::io_context&, const std::string& socket, const std::string& name,
                 std::chrono::milliseconds patience, std::function<void(OpenResult)> then);
// Blocking variant.
OpenResult open_export(const std::string& socket, const std::string& name,
                       std::chrono::milliseconds patience);

}  // namespace rtrs::kernel_nbd
