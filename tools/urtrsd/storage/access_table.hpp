// Keeps the writers of each device and applies the rules of protocol section 9.4 to all sessions of the
// daemon.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>

#include "core/wire/rnbd_messages.hpp"
#include "tools/urtrsd/storage/open_error.hpp"

namespace rtrs::daemon {

using wire::rnbd::AccessMode;

enum class ExportKind : std::uint8_t { file, block_device, memory, nbd };
const char* to_string(ExportKind kind) noexcept;

// Identity of the device behind an export name. If two names stand for the same device, both have the same
// identity, so the access rules apply to them together.
struct DeviceId {
  ExportKind kind = ExportKind::file;
  std::uint64_t major = 0;  // file: st_dev; block device: major(st_rdev); memory: 0
  std::uint64_t minor =
      0;  // file: st_ino; block device: minor(st_rdev); memory: number of the configured export
  auto operator<=>(const DeviceId&) const = default;
};

class AccessTable;

// The right to use a device in one access mode. The destructor releases the right. A lease must not outlive
// its table.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { release(); }
  void release() noexcept;  // no effect on an empty lease
  AccessMode mode() const noexcept { return mode_; }
  explicit operator bool() const noexcept { return table_ != nullptr; }

 private:
  friend class AccessTable;
  Lease(AccessTable& table, const DeviceId& id, AccessMode mode) : table_(&table), id_(id), mode_(mode) {}
  AccessTable* table_ = nullptr;
  DeviceId id_;
  AccessMode mode_ = AccessMode::read_only;
};

// Not thread-safe.
class AccessTable {
 public:
  AccessTable() = default;
  AccessTable(const AccessTable&) = delete;
  AccessTable& operator=(const AccessTable&) = delete;

  // Grants read-only access always, read-write access if there is no writer, and migration if there are fewer
  // than two writers; otherwise returns EPERM. `session` and `device` are used only in the error text.
  tl::expected<Lease, OpenError> acquire(const DeviceId& id, AccessMode mode, const std::string& session,
                                         const std::string& device);
  std::uint32_t readers(const DeviceId& id) const;
  std::uint32_t writers(const DeviceId& id) const;
  bool empty() const { return devices_.empty(); }

 private:
  friend class Lease;
  struct Users {
    std::uint32_t readers = 0;
    std::uint32_t writers = 0;
    std::string last_writer;  // name of the session of the last writer, for the error text
  };
  void release(const DeviceId& id, AccessMode mode) noexcept;
  std::map<DeviceId, Users> devices_;
};

}  // namespace rtrs::daemon
