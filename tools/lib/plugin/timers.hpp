// The times by which a client decides, and who chose each.
#pragma once
#include <vector>

#include "tools/lib/client_control/client_control.hpp"
#include "tools/lib/plugin/settings.hpp"

namespace rtrs::nbdkit {

// Of settings that complete() has seen. What no parameter sets is there too, and what follows from others.
std::vector<control::ClientTimer> timers_of(const Settings&);

}  // namespace rtrs::nbdkit
