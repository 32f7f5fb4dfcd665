// File descriptor that is closed on destruction.
#pragma once

#include "backends/platform/address/unique_fd.hpp"

namespace rtrs::daemon {

using net::UniqueFd;

}  // namespace rtrs::daemon
