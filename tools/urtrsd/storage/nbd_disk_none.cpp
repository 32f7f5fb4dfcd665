// Replaces nbd_disk_libnbd.cpp in builds without libnbd: every connect() fails with EOPNOTSUPP.
#include <cerrno>

#include "tools/urtrsd/storage/nbd_disk.hpp"

namespace rtrs::daemon {

tl::expected<std::shared_ptr<NbdDisk>, OpenError> NbdDisk::connect(const std::string&, std::string described,
                                                                   Tell, const Options&) {
  return refuse(EOPNOTSUPP,
                described +
                    " cannot be used: this urtrsd was built without libnbd; install libnbd-dev and "
                    "build it again");
}

NbdDisk::~NbdDisk() = default;
void NbdDisk::submit(NbdCommand&) noexcept {}
void NbdDisk::stop_waiting() noexcept {}

}  // namespace rtrs::daemon
