// What the kernel's NBD client is asked for, by generic netlink (Linux 5.14). All of it needs CAP_SYS_ADMIN.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::kernel_nbd {

// A device has one connection: with more than one, the kernel sends a request that takes long over another
// one while the first may still be carried out, and an old write could follow a newer one.
struct NewDevice {
  std::optional<unsigned> index;  // nothing: the first that is free
  int fd = -1;
  std::uint64_t bytes = 0;
  std::uint32_t block = 512;  // bytes
  std::uint16_t flags = 0;
  unsigned wait = 0;  // seconds that IO waits for a new connection
  std::string identity;
};

// Errors are errnos. `identity` is the one that the device has to have.
class Kernel {
 public:
  Kernel() = default;
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  virtual tl::expected<unsigned, int> attach(const NewDevice&) = 0;
  // In place of a connection that is lost; not taken, and no error, where none is.
  virtual int hand_over(unsigned index, const std::string& identity, int fd) = 0;
  virtual int resize(unsigned index, const std::string& identity, std::uint64_t bytes) = 0;
  // Whoever uses it gets errors.
  virtual int detach(unsigned index) = 0;
};

// Devices whose connection is lost, as the kernel tells it.
class LostConnections {
 public:
  LostConnections() = default;
  virtual ~LostConnections() = default;
  LostConnections(const LostConnections&) = delete;
  LostConnections& operator=(const LostConnections&) = delete;

  virtual int fd() const = 0;  // readable: read() has something
  struct News {
    std::vector<unsigned> lost;
    bool missed = false;  // more than it had room for
  };
  virtual News read() = 0;
};

// Whether this program was built with libnl.
bool has_netlink() noexcept;
// The error is an errno: ENOENT where the module nbd is not loaded, EOPNOTSUPP without libnl.
tl::expected<std::unique_ptr<Kernel>, int> open_kernel();
tl::expected<std::unique_ptr<LostConnections>, int> watch_kernel();

}  // namespace rtrs::kernel_nbd
