// The machines of RNBD devices, for replay().
#pragma once
#include <memory>

#include "tools/lib/trace/replay.hpp"

namespace rtrs::trace {

std::unique_ptr<ReplayMachine> make_client_devices();

}  // namespace rtrs::trace
