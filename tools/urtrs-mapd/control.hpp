// The control socket of urtrs-mapd (docs/management.md describes the methods and their JSON).
#pragma once
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/rpc/server.hpp"
#include "tools/urtrs-mapd/keeper.hpp"

namespace rtrs::mapd {

// Opens the control socket in the run-time directory. The error is a human-readable message.
tl::expected<std::unique_ptr<rpc::Server>, std::string> open_control(boost::asio::io_context&, const Options&,
                                                                     Keeper&);

// Returns nbd+unix:///DEVICE?socket=FILE, percent-encoded.
std::string uri_of(const std::string& device, const std::string& socket);

}  // namespace rtrs::mapd
