// All that this daemon exports: configured devices by name, then whatever lies under dev_search_path.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/urtrsd/access_table.hpp"
#include "tools/urtrsd/cache_identity.hpp"
#include "tools/urtrsd/export.hpp"
#include "tools/urtrsd/search_path.hpp"

namespace rtrs::daemon {

// A configured device. Exactly one of `path` and `memory_bytes` is set.
struct ExportSpec {
  std::string name;                // what peers ask for; leading slashes do not count
  std::string path;                // not confined: the administrator wrote it
  std::uint64_t memory_bytes = 0;  // > 0: a memory device of this size
  bool read_only = false;
  std::uint32_t delay_ms = 0;
  bool operator==(const ExportSpec&) const = default;
};

// An open of one session. The lease is given back when this is destroyed, after the device is closed.
struct OpenedDevice {
  Lease lease;
  std::unique_ptr<Export> device;
  std::uint64_t instance = 0;  // of its cache; 0: not known
  std::string name = {};       // as it was asked for
};

// Must outlive every OpenedDevice it returned. One thread only. Memory devices keep their content from the
// first open until the catalog is destroyed.
class Catalog {
 public:
  // nullopt as search_path: only configured devices can be opened. Fails when the search path cannot be used
  // or a name is configured twice.
  static tl::expected<std::unique_ptr<Catalog>, OpenError> create(
      std::vector<ExportSpec> specs, const std::optional<std::string>& search_path,
      Confinement how = Confinement::automatic);

  // Errors: ENOENT, ENOTBLK (not a file or block device), EACCES (read-only, outside, not permitted),
  // EPERM (too many writers), EINVAL (bad name, empty device), else as open(2).
  tl::expected<OpenedDevice, OpenError> open(std::string_view session, std::string_view name,
                                             AccessMode mode);

  // Tries every configured device for reading, without a lease: one error for each that peers could not open.
  std::vector<OpenError> check() const;
  // Of this export, under whatever name: later opens get another instance.
  void on_failed_sync(const DeviceId& id) { cache_.on_failed_sync(id); }
  // The exports that peers can name without knowing the file system.
  const std::vector<ExportSpec>& specs() const { return specs_; }
  const AccessTable& access() const { return access_; }
  std::vector<std::string> warnings() const;  // of the search path, and of what cannot be told to peers

 private:
  Catalog() = default;
  tl::expected<OpenedDevice, OpenError> open_spec(std::size_t index, std::string_view session,
                                                  AccessMode mode);
  tl::expected<OpenedDevice, OpenError> open_located(UniqueFd path_fd, const Export::Options& options,
                                                     std::string_view session, std::string_view name,
                                                     AccessMode mode);

  std::vector<ExportSpec> specs_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::size_t, std::shared_ptr<MemoryRegion>> memory_;
  std::optional<SearchPath> search_path_;
  AccessTable access_;
  CacheIdentity cache_ = CacheIdentity::of_system();
};

}  // namespace rtrs::daemon
