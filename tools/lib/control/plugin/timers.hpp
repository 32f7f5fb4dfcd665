// Lists the timers of a client, and where the value of each timer comes from.
#pragma once
#include <vector>

#include "tools/lib/control/client/client_control.hpp"
#include "tools/lib/control/plugin/settings.hpp"

namespace rtrs::plugin {

// Call after Settings::complete(). The result includes timers without a parameter and timers that are derived
// from others.
std::vector<control::ClientTimer> timers_of(const Settings&);

}  // namespace rtrs::plugin
