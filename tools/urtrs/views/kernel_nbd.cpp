#include "tools/urtrs/views/kernel_nbd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tools/lib/control/kernel_nbd/open_export.hpp"

namespace rtrs::admin {

using namespace kernel_nbd;

namespace {

constexpr std::chrono::seconds kOpenPatience{10};
// Maximum time to wait for the export if --idempotent is given, because urtrs-mapd may still be restoring the
// export, for example after a reboot.
constexpr std::chrono::seconds kAgainPatience{60};
// Value for io_timeout, in milliseconds. When a request is unanswered for this time, the kernel resends it if
// the connection was replaced, and otherwise continues to wait. The default of the kernel is 30 s.
constexpr const char* kLookAtRequests = "10000";

rpc::Error refusal(int error, std::string message, std::string hint) {
  return {rpc::Code::failed, std::move(message), std::move(hint), error};
}

// True if the device is attached: the kernel then shows the file `pid`.
bool is_taken(const NbdHost& host, unsigned index) {
  return std::filesystem::exists(fmt::format("{}/nbd{}/pid", host.blocks, index));
}

std::string path_of(const NbdHost& host, unsigned index) {
  return fmt::format("{}/nbd{}", host.devices, index);
}

// Returns the index of a device given as "/dev/nbd3" or "nbd3"; nullopt if there is no such device.
std::optional<unsigned> index_of_wish(const NbdHost& host, const std::string& wanted) {
  const std::string prefix = host.devices + "/";
  const auto index = index_of(wanted.starts_with(prefix) ? wanted.substr(prefix.size()) : wanted);
  return index && std::filesystem::exists(path_of(host, *index)) ? index : std::nullopt;
}

bool has_identity(const NbdHost& host, unsigned index, const std::string& identity) {
  std::ifstream file(fmt::format("{}/nbd{}/backend", host.blocks, index));
  std::string line;
  std::getline(file, line);
  return line == identity;
}

bool fits(const NbdHost& host, const NbdWish& wish, const Attached& one) {
  return one.what.name == wish.name &&
         (wish.device == "auto" || index_of_wish(host, wish.device) == one.index);
}

rpc::Error kernel_refuses(int error) {
  if (error == EOPNOTSUPP)
    return refusal(error, "this urtrs was built without libnl, which asks the kernel",
                   "install libnl-genl-3-dev and build it again, or use the URI without --nbd");
  if (error == ENOENT) return refusal(error, "the kernel's NBD client does not answer", "modprobe nbd");
  return refusal(error,
                 fmt::format("cannot open netlink to the kernel's NBD client: {}", std::strerror(error)), "");
}

// Claims the device, so that it cannot be mounted until the claim ends, and flushes its writes.
tl::expected<Descriptor, int> claim(const std::string& path) {
  Descriptor device(::open(path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  if (device.get() < 0) return tl::unexpected(errno);
  if (::fsync(device.get()) != 0) return tl::unexpected(errno);
  return device;
}

}  // namespace

std::optional<rpc::Error> check_kernel_nbd(const NbdHost& host, const NbdWish& wish) {
  if (host.needs_root && ::geteuid() != 0)
    return refusal(EPERM, "only root can attach a device of the kernel",
                   "run it with sudo, or use the URI without --nbd");
  if (!std::filesystem::exists(host.devices + "/nbd0"))
    return refusal(ENODEV, fmt::format("{}/nbd0 does not exist", host.devices),
                   "modprobe nbd; where the kernel has no such module, use the URI without --nbd");
  if (const auto kernel = host.kernel(); !kernel) return kernel_refuses(kernel.error());
  if (host.keeper_runs() == false)
    return refusal(ESRCH, "no urtrs-mapd --kernel-devices runs, which keeps devices of the kernel connected",
                   "start it with \"systemctl start urtrs-nbd\", or run it as root");
  if (wish.device == "auto") return std::nullopt;
  const auto index = index_of_wish(host, wish.device);
  if (!index)
    return refusal(
        ENODEV, fmt::format("\"{}\" is not a device of the kernel's NBD client", wish.device),
        fmt::format("{}/nbd0, {}/nbd1 and so on, or --nbd without one", host.devices, host.devices));
  if (!is_taken(host, *index)) return std::nullopt;
  if (wish.again)
    for (const Attached& one : attached_devices(host.blocks))
      if (fits(host, wish, one)) return std::nullopt;
  return refusal(EBUSY, fmt::format("{} is taken", path_of(host, *index)),
                 "name another one, or --nbd without one");
}

tl::expected<std::string, rpc::Error> attach_kernel_nbd(const NbdHost& host, const NbdWish& wish,
                                                        const std::string& socket) {
  if (wish.again)
    for (const Attached& one : attached_devices(host.blocks))
      if (one.what.socket == socket && fits(host, wish, one)) return path_of(host, one.index);
  if (auto missing = check_kernel_nbd(host, wish)) return tl::unexpected(std::move(*missing));
  const auto kernel = host.kernel();
  if (!kernel) return tl::unexpected(kernel_refuses(kernel.error()));
  const auto end = std::chrono::steady_clock::now() + kAgainPatience;
  OpenResult opened = open_export(socket, wish.name, kOpenPatience);
  while (!opened && wish.again && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    opened = open_export(socket, wish.name, kOpenPatience);
  }
  if (!opened) return tl::unexpected(refusal(EIO, opened.error().why, "see the log of urtrs-mapd"));
  const std::string identity = identity_of({opened->what.flags, wish.wait, socket, wish.name});
  NewDevice device{
      std::nullopt, opened->fd.get(), opened->what.bytes, opened->what.least_block, opened->what.flags,
      wish.wait,    identity};
  if (wish.device != "auto") device.index = index_of_wish(host, wish.device);
  const auto index = (*kernel)->attach(device);
  if (!index)
    return tl::unexpected(refusal(
        index.error(), fmt::format("the kernel refused to attach it: {}", std::strerror(index.error())),
        index.error() == EBUSY ? "name another device, or --nbd without one" : ""));
  if (!has_identity(host, *index, identity)) {
    (*kernel)->detach(*index);
    return tl::unexpected(refusal(EOPNOTSUPP, "the kernel does not report what a device is attached to",
                                  "Linux 5.14 or later does; use the URI without --nbd"));
  }
  // If the write fails, the kernel's default stays in use.
  std::ofstream(fmt::format("{}/nbd{}/queue/io_timeout", host.blocks, *index)) << kLookAtRequests << '\n';
  return path_of(host, *index);
}

tl::expected<bool, rpc::Error> detach_kernel_nbd(const NbdHost& host, const std::string& socket,
                                                 const std::string& name, bool force) {
  bool any = false;
  for (const Attached& one : attached_devices(host.blocks)) {
    if (one.what.socket != socket || one.what.name != name) continue;
    const std::string path = path_of(host, one.index);
    if (host.needs_root && ::geteuid() != 0)
      return tl::unexpected(
          refusal(EPERM, fmt::format("{} is attached to it, and only root can detach a kernel device", path),
                  "run it with sudo"));
    const auto kernel = host.kernel();
    if (!kernel) return tl::unexpected(kernel_refuses(kernel.error()));
    tl::expected<Descriptor, int> claimed = force ? tl::unexpected(0) : claim(path);
    if (!force && !claimed)
      return tl::unexpected(
          refusal(claimed.error(), fmt::format("{}: {}", path, std::strerror(claimed.error())),
                  claimed.error() == EBUSY ? "is it mounted? \"force\" detaches it anyway"
                                           : "its writes cannot be flushed; \"force\" discards them"));
    if (const int error = (*kernel)->detach(one.index); error != 0)
      return tl::unexpected(
          refusal(error, fmt::format("{} cannot be detached: {}", path, std::strerror(error)), ""));
    any = true;
  }
  return any;
}

}  // namespace rtrs::admin
