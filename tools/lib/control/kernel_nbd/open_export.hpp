// A new connection to an export, for the kernel.
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
  std::string why;       // a sentence
  bool is_dead = false;  // nobody of this network namespace has the socket any more
};
using OpenResult = tl::expected<OpenExport, NoExport>;

// `then` is called once, never from within.
void open_export(boost::asio::io_context&, const std::string& socket, const std::string& name,
                 std::chrono::milliseconds patience, std::function<void(OpenResult)> then);
// The same for who has nothing else to do.
OpenResult open_export(const std::string& socket, const std::string& name,
                       std::chrono::milliseconds patience);

}  // namespace rtrs::kernel_nbd
