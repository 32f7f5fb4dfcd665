// Implements Host for the host on which this process runs.
#pragma once
#include <memory>

#include "tools/urtrs/doctor/doctor.hpp"

namespace rtrs::admin {

std::unique_ptr<Host> this_host();

}  // namespace rtrs::admin
