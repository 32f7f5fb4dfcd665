// Devices of the kernel's NBD client, attached by the program nbd-client: `urtrs map --nbd`.
#pragma once
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/rpc/message.hpp"

namespace rtrs::admin {

// Where things are; a test has others.
struct NbdHost {
  std::string devices = "/dev";
  std::string blocks = "/sys/block";
  std::string notes;    // folder that says which device has what; empty: the run-time folder
  std::string program;  // empty: nbd-client of PATH
  bool needs_root = true;
};

// What is missing: root, the module, the program; or the device that is named is none or is taken. `wanted`
// is "auto" or a device.
std::optional<rpc::Error> check_kernel_nbd(const NbdHost&, const std::string& wanted);

// The device that now has export `name` of the socket.
tl::expected<std::string, rpc::Error> attach_kernel_nbd(const NbdHost&, const std::string& wanted,
                                                        const std::string& socket, const std::string& name);

// Detaches every device that attach_kernel_nbd() gave this export; nothing where there is none.
std::optional<rpc::Error> detach_kernel_nbd(const NbdHost&, const std::string& socket,
                                            const std::string& name);

}  // namespace rtrs::admin
