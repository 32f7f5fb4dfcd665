// What a device of the kernel's NBD client is attached to. The kernel keeps it as the "backend" of the device
// (Linux 5.14), so that whoever comes later finds it there, and takes a new connection for no other backend.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::kernel_nbd {

// For how long IO waits for nbdkit to come back: longer than a name of a session may be taken (75 s), and
// than IO waits for a path (queue_timeout).
inline constexpr unsigned kWaitSeconds = 300;

struct Attachment {
  std::uint16_t flags = 0;  // of the export, as NBD has them
  unsigned wait = kWaitSeconds;
  std::string socket;  // of nbdkit
  std::string name;    // of the export
  bool operator==(const Attachment&) const = default;
};

// One line of printable ASCII, for the kernel.
std::string identity_of(const Attachment&);
// Nothing: somebody else attached it.
std::optional<Attachment> parse_identity(std::string_view text);

struct Attached {
  unsigned index = 0;  // of /dev/nbdN
  Attachment what;
  std::uint64_t bytes = 0;
  bool operator==(const Attached&) const = default;
};

// Those of ours, by index. `blocks` is /sys/block, unless it is a test's.
std::vector<Attached> attached_devices(const std::string& blocks);

// "nbd7": 7. Nothing: it is no such name.
std::optional<unsigned> index_of(std::string_view name);

// Held by the process that keeps the devices connected.
std::string keeper_lock_file();
// Nothing: this user cannot know.
std::optional<bool> keeper_runs();

}  // namespace rtrs::kernel_nbd
