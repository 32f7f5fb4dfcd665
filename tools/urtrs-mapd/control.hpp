// The control socket of urtrs-mapd: methods and JSON (docs/management.md).
#pragma once
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/rpc/server.hpp"
#include "tools/urtrs-mapd/keeper.hpp"

namespace rtrs::mapd {

// The socket, in the run-time folder. The error is a sentence.
tl::expected<std::unique_ptr<rpc::Server>, std::string> open_control(boost::asio::io_context&, const Options&,
                                                                     Keeper&);

// nbd+unix:///DEVICE?socket=FILE, with what a URI cannot have written as %XX.
std::string uri_of(const std::string& device, const std::string& socket);

}  // namespace rtrs::mapd
