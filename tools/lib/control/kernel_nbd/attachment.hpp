// Describes the export that a kernel NBD device is attached to. The kernel stores the description as the
// "backend" of the device (Linux 5.14), where a process that starts later can read it. The kernel accepts a
// new connection only if the caller gives the same backend.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::kernel_nbd {

// Time in seconds that IO waits for a new nbdkit. Must be longer than the 75 s for which the name of a lost
// session can stay in use, and longer than `queue_timeout`, for which IO waits for a path.
inline constexpr unsigned kWaitSeconds = 300;

struct Attachment {
  std::uint16_t flags = 0;       // NBD transmission flags of the export
  unsigned wait = kWaitSeconds;  // seconds that IO waits for a new connection
  std::string socket;            // path of the unix socket of nbdkit
  std::string name;              // name of the export
  bool operator==(const Attachment&) const = default;
};

// Returns the backend text for the kernel: one line of printable ASCII.
std::string identity_of(const Attachment&);
// Parses a backend text. Returns nullopt for a text of another form, which means that another program
// attached the device.
std::optional<Attachment> parse_identity(std::string_view text);

struct Attached {
  unsigned index = 0;  // N of /dev/nbdN
  Attachment what;
  std::uint64_t bytes = 0;
  bool operator==(const Attached&) const = default;
};

// Returns the devices that programs of this project attached, sorted by index. `blocks` is /sys/block, except
// in tests.
std::vector<Attached> attached_devices(const std::string& blocks);

// Returns 7 for "nbd7"; nullopt if the name has another form.
std::optional<unsigned> index_of(std::string_view name);

// Returns the path of the lock file that `urtrs-mapd --kernel-devices` holds. This process keeps the kernel
// devices connected and is called the keeper.
std::string keeper_lock_file();
// Returns whether the keeper runs; nullopt if this user has no permission to open the lock file.
std::optional<bool> keeper_runs();

}  // namespace rtrs::kernel_nbd
