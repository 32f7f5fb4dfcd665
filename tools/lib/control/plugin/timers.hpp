// The times by which a client decides, and who chose each.
#pragma once
#include <vector>

#include "tools/lib/control/client/client_control.hpp"
#include "tools/lib/control/plugin/settings.hpp"

namespace rtrs::nbdkit {

// Needs settings after complete(). Includes timers without a parameter and those that follow from others.
std::vector<control::ClientTimer> timers_of(const Settings&);

}  // namespace rtrs::nbdkit
