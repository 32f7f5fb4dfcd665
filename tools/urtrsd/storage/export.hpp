// An opened device that peers read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "core/rnbd/geometry.hpp"
#include "tools/urtrsd/storage/access_table.hpp"
#include "tools/urtrsd/storage/fair_slots.hpp"
#include "tools/urtrsd/storage/located.hpp"
#include "tools/urtrsd/storage/nbd_disk.hpp"
#include "tools/urtrsd/storage/open_error.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

inline constexpr std::uint32_t kSectorBytes = 512;

// Zero-filled memory of the process. The system allocates a page when the page is first written.
class MemoryRegion {
 public:
  // `size` is in bytes and not 0. Error ENOMEM: the address space is exhausted.
  static tl::expected<std::shared_ptr<MemoryRegion>, OpenError> create(std::uint64_t size);
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;
  ~MemoryRegion();
  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  MemoryRegion(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  std::size_t size_;
};

// Must outlive the operations that were submitted for it: destroy it only when in_flight() is 0.
class Export {
 public:
  struct Options {
    bool read_only = false;
    std::uint32_t delay_ms = 0;  // every operation waits this long before it starts
    // The open only checks the export and must not change atime and mtime of the file.
    bool only_checked = false;
  };

  // Opens a device for reading and, unless options.read_only, for writing. A size that is not a multiple of
  // the logical block is rounded down with a warning; if nothing is left, the error is EINVAL.
  static tl::expected<std::unique_ptr<Export>, OpenError> open(const Located& located, const Options& options,
                                                               const std::string& described);
  static tl::expected<std::unique_ptr<Export>, OpenError> open_memory(std::shared_ptr<MemoryRegion> region,
                                                                      const DeviceId& id,
                                                                      const Options& options,
                                                                      const std::string& described);
  static tl::expected<std::unique_ptr<Export>, OpenError> open_nbd(std::shared_ptr<NbdDisk> disk,
                                                                   const DeviceId& id, const Options& options,
                                                                   const std::string& described);
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  ~Export();

  ExportKind kind() const noexcept { return id_.kind; }
  const DeviceId& id() const noexcept { return id_; }
  // Distinguishes disks that have the same DeviceId. For a block device: the kernel's disk sequence number,
  // which is different for each disk that gets the same device number. For an NBD server: the number of times
  // that it may have lost writes. 0: unknown, or any other kind of device.
  std::uint64_t sequence() const noexcept { return sequence_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.nsectors * kSectorBytes; }
  std::uint64_t sectors() const noexcept { return geometry_.nsectors; }
  // Reads the current size in bytes from the system; 0 if it is unknown. Blocks as long as the disk does. May
  // be called from any thread.
  std::uint64_t measure() const noexcept;
  // Sets the size to a result of measure(); 0 leaves the size unchanged. An incomplete last block is not
  // exported.
  void resize(std::uint64_t bytes) noexcept;
  bool read_only() const noexcept { return options_.read_only; }
  std::uint32_t delay_ms() const noexcept { return options_.delay_ms; }
  // Exported size and supported operations. Clients receive them in OPEN_RSP.
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

  int fd() const noexcept { return fd_.get(); }                          // -1 for memory and NBD servers
  const std::shared_ptr<NbdDisk>& nbd() const noexcept { return nbd_; }  // null if this is not an NBD export
  std::uint64_t& nbd_seen() noexcept { return nbd_seen_; }               // target of NbdCommand::seen
  std::span<std::byte> memory() const noexcept { return region_ ? region_->bytes() : std::span<std::byte>(); }

  std::uint32_t page_size() const noexcept { return page_size_; }  // page size of memory() in bytes

  // The device's share of the slots of the StorageEngine. All opens of one device use the same share.
  SlotShare& share() const noexcept { return *share_; }
  const std::shared_ptr<SlotShare>& common_share() const noexcept { return share_; }
  void use_share(std::shared_ptr<SlotShare> share) noexcept { share_ = std::move(share); }
  void leave_share() noexcept { share_.reset(); }  // after this, no operation may be submitted
  bool owns_share() const noexcept {
    return share_.use_count() == 1;
    // True if this is the last open of the device.
  }

  // Number of operations submitted but not yet reported. The StorageEngine counts them.
  std::uint32_t in_flight() const noexcept { return in_flight_; }
  void begin_operation() noexcept { ++in_flight_; }
  void end_operation() noexcept { --in_flight_; }

 private:
  Export() = default;
  // Sets the exported size to the whole blocks in `bytes`.
  tl::expected<void, OpenError> set_size(std::uint64_t bytes, const std::string& described);

  DeviceId id_;
  UniqueFd fd_;
  std::shared_ptr<MemoryRegion> region_;
  std::shared_ptr<NbdDisk> nbd_;
  std::uint64_t nbd_seen_ = 0;
  std::uint64_t sequence_ = 0;
  Options options_;
  rnbd::Geometry geometry_;
  std::uint32_t page_size_ = 4096;
  std::uint32_t in_flight_ = 0;
  std::shared_ptr<SlotShare> share_ = std::make_shared<SlotShare>();
  std::vector<std::string> warnings_;
};

}  // namespace rtrs::daemon
