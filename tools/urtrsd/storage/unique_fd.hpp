// A file descriptor that closes itself.
#pragma once

#include "backends/platform/address/unique_fd.hpp"

namespace rtrs::daemon {

using net::UniqueFd;

}  // namespace rtrs::daemon
