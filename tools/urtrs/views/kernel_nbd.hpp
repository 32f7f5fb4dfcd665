// Devices of the kernel's NBD client: `urtrs map --nbd`. urtrs-mapd --kernel-devices keeps them connected.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/kernel_nbd/attachment.hpp"
#include "tools/lib/control/kernel_nbd/kernel.hpp"
#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::admin {

// Where things are; a test has others.
struct NbdHost {
  std::string devices = "/dev";
  std::string blocks = "/sys/block";
  std::function<tl::expected<std::unique_ptr<kernel_nbd::Kernel>, int>()> kernel = kernel_nbd::open_kernel;
  std::function<std::optional<bool>()> keeper_runs = kernel_nbd::keeper_runs;
  bool needs_root = true;
};

struct NbdWish {
  std::string device;  // "auto", or the one of the kernel
  unsigned wait = kernel_nbd::kWaitSeconds;
  std::string name;    // of the export
  bool again = false;  // it is no mistake that it is attached already
};

// What is missing: root, the module, who keeps it connected; or the device that is named is none or is taken.
std::optional<rpc::Error> check_kernel_nbd(const NbdHost&, const NbdWish&);

// The device that now has the export of the socket.
tl::expected<std::string, rpc::Error> attach_kernel_nbd(const NbdHost&, const NbdWish&,
                                                        const std::string& socket);

// Detaches every device that has this export, and says whether there was one. Without `force` none that is in
// use, and what was written is on the server's disk first.
tl::expected<bool, rpc::Error> detach_kernel_nbd(const NbdHost&, const std::string& socket,
                                                 const std::string& name, bool force);

}  // namespace rtrs::admin
