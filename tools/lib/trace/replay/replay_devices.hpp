// Creates the RNBD device state machines for replay().
#pragma once
#include <memory>

#include "core/rnbd/server_devices.hpp"
#include "tools/lib/trace/replay/replay.hpp"

namespace rtrs::trace {

std::unique_ptr<ReplayMachine> make_client_devices();
std::unique_ptr<ReplayMachine> make_server_devices(const rnbd::ServerOptions& options);

}  // namespace rtrs::trace
