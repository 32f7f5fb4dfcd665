// `urtrs map --nbd` uses devices of the NBD client of the kernel. urtrs-mapd --kernel-devices keeps these
// devices connected.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/kernel_nbd/attachment.hpp"
#include "tools/lib/control/kernel_nbd/kernel.hpp"
#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::admin {

// Directories and functions of the host; tests replace them.
struct NbdHost {
  std::string devices = "/dev";
  std::string blocks = "/sys/block";
  std::function<tl::expected<std::unique_ptr<kernel_nbd::Kernel>, int>()> kernel = kernel_nbd::open_kernel;
  std::function<std::optional<bool>()> keeper_runs = kernel_nbd::keeper_runs;
  bool needs_root = true;
};

struct NbdWish {
  std::string device;  // kernel NBD device to use, or "auto"
  unsigned wait = kernel_nbd::kWaitSeconds;
  std::string name;    // name of the export
  bool again = false;  // succeed if the export is already attached
};

// Checks the requirements: root, the kernel module, a running urtrs-mapd --kernel-devices, and a free device.
// Returns nullopt, or the error.
std::optional<rpc::Error> check_kernel_nbd(const NbdHost&, const NbdWish&);

// Attaches the export at `socket`. Returns the path of the device.
tl::expected<std::string, rpc::Error> attach_kernel_nbd(const NbdHost&, const NbdWish&,
                                                        const std::string& socket);

// Detaches every device to which this export is attached. Returns true if there was such a device. Without
// `force`, first flushes the writes of a device, and fails for a device in use.
tl::expected<bool, rpc::Error> detach_kernel_nbd(const NbdHost&, const std::string& socket,
                                                 const std::string& name, bool force);

}  // namespace rtrs::admin
