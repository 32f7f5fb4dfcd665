// Replaces netlink.cpp in a build without libnl.
#include <cerrno>

#include "tools/lib/control/kernel_nbd/kernel.hpp"

namespace rtrs::kernel_nbd {

bool has_netlink() noexcept {
  return false;
}

tl::expected<std::unique_ptr<Kernel>, int> open_kernel() {
  return tl::unexpected(EOPNOTSUPP);
}

tl::expected<std::unique_ptr<LostConnections>, int> watch_kernel() {
  return tl::unexpected(EOPNOTSUPP);
}

}  // namespace rtrs::kernel_nbd
