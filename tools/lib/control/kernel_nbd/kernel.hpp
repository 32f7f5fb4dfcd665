// Interface to the kernel's NBD client over generic netlink (Linux 5.14). All calls need CAP_SYS_ADMIN.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::kernel_nbd {

// A kernel NBD device to attach. The device has only one connection: with several connections, the kernel
// would send a slow request again over another connection while the server may still execute the first copy.
// An old write could then take effect after a newer one.
struct NewDevice {
  std::optional<unsigned> index;  // nullopt: the first unused device
  int fd = -1;
  std::uint64_t bytes = 0;
  std::uint32_t block = 512;  // block size in bytes
  std::uint16_t flags = 0;    // NBD transmission flags
  unsigned wait = 0;          // seconds that IO waits for a new connection
  std::string identity;
};

// Errors are positive errnos; 0 is success. The device must have the backend text `identity` (identity_of()).
class Kernel {
 public:
  Kernel() = default;
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  virtual tl::expected<unsigned, int> attach(const NewDevice&) = 0;
  // Replaces a lost connection. If the device has not lost its connection, the kernel ignores the call and
  // returns 0.
  virtual int hand_over(unsigned index, const std::string& identity, int fd) = 0;
  virtual int resize(unsigned index, const std::string& identity, std::uint64_t bytes) = 0;
  // Detaches the device. Pending and later IO of the device fails.
  virtual int detach(unsigned index) = 0;
};

// Receives the kernel's events about lost connections.
class LostConnections {
 public:
  LostConnections() = default;
  virtual ~LostConnections() = default;
  LostConnections(const LostConnections&) = delete;
  LostConnections& operator=(const LostConnections&) = delete;

  virtual int fd() const = 0;  // readable when read() has events
  struct News {
    std::vector<unsigned> lost;
    bool missed = false;  // the buffer overflowed, so events were lost
  };
  virtual News read() = 0;
};

// Returns true if this program was built with libnl.
bool has_netlink() noexcept;
// The error is a positive errno: ENOENT if the nbd module is not loaded, EOPNOTSUPP without libnl.
tl::expected<std::unique_ptr<Kernel>, int> open_kernel();
tl::expected<std::unique_ptr<LostConnections>, int> watch_kernel();

}  // namespace rtrs::kernel_nbd
