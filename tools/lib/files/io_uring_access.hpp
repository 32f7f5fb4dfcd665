// Checks whether this process may use io_uring. Containers, old kernels and resource limits can forbid it.
#pragma once

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

namespace rtrs::tools {

// Number of entries of the ring that urtrsd creates.
inline constexpr unsigned kStorageRingEntries = 2049;

struct IoUringRefusal {
  std::string why;     // reason, such as "io_uring_setup: Operation not permitted (1): ..."
  std::string remedy;  // advice how to allow io_uring
};

inline IoUringRefusal explain_io_uring_refusal(const char* call, int error) {
  const std::string why = std::string(call) + ": " + std::generic_category().message(error) + " (" +
                          std::to_string(error) + "): ";
  std::string disabled;
  std::getline(std::ifstream("/proc/sys/kernel/io_uring_disabled"), disabled);
  switch (error) {
    case EPERM:
    case EACCES:
      if (!disabled.empty() && disabled != "0")
        return {why + "kernel.io_uring_disabled is " + disabled, "sysctl kernel.io_uring_disabled=0"};
      return {why + "a seccomp filter or a security module refuses it, as Docker's default profile does",
              "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile"};
    case ENOMEM:
      return {why + "the limit of locked memory is too small",
              "ulimit -l unlimited, or LimitMEMLOCK=infinity"};
    case ENOSYS:
      return {why + "this kernel has no io_uring, or a sandbox hides it",
              "run on Linux 5.6 or newer, and allow io_uring in the sandbox"};
    case EINVAL:
      return {why + "this kernel's io_uring lacks operations that urtrsd needs", "run on Linux 5.6 or newer"};
    default:
      return {why + "the kernel refuses it", "fix the cause that the error names"};
  }
}

// Tries the io_uring calls other than io_uring_setup, because a seccomp filter can allow one call and refuse
// the others. Also checks that the ring supports the operations that urtrsd needs. Returns nullopt if
// everything works.
inline std::optional<IoUringRefusal> try_ring(int ring) {
  if (::syscall(SYS_io_uring_enter, ring, 0, 0, 0, nullptr, std::size_t{0}) < 0)
    return explain_io_uring_refusal("io_uring_enter", errno);
  constexpr unsigned kOps = 256;
  alignas(io_uring_probe) std::array<std::byte, sizeof(io_uring_probe) + kOps * sizeof(io_uring_probe_op)>
      room{};
  if (::syscall(SYS_io_uring_register, ring, IORING_REGISTER_PROBE, room.data(), kOps) < 0)
    return explain_io_uring_refusal("io_uring_register", errno);
  const auto* const probe = reinterpret_cast<const io_uring_probe*>(room.data());
  for (const unsigned op : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_FALLOCATE,
                            IORING_OP_TIMEOUT, IORING_OP_POLL_ADD})
    if ((probe->ops[op].flags & IO_URING_OP_SUPPORTED) == 0)
      return explain_io_uring_refusal("io_uring_register", EINVAL);
  return std::nullopt;
}

// Creates a ring with `entries` entries, tries it, and closes it. Returns nullopt if io_uring can be used.
inline std::optional<IoUringRefusal> io_uring_refusal(unsigned entries = kStorageRingEntries) {
  io_uring_params parameters{};
  const long ring = ::syscall(SYS_io_uring_setup, entries, &parameters);
  if (ring < 0) return explain_io_uring_refusal("io_uring_setup", errno);
  auto refused = try_ring(static_cast<int>(ring));
  ::close(static_cast<int>(ring));
  return refused;
}

}  // namespace rtrs::tools
