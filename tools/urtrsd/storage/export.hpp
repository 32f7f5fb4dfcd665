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

// Zero-filled memory of the process. The system allocates each page at the first write to it.
class MemoryRegion {
 public:
  // `size` in bytes, > 0. Error ENOMEM: the address space is exhausted.
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

// Must outlive every operation submitted on it: destroy it only when in_flight() is 0.
class Export {
 public:
  struct Options {
    bool read_only = false;
    std::uint32_t delay_ms = 0;  // every operation waits this long before it starts
    bool only_checked = false;   // opened only for a check; must not change atime and mtime of the file
  };

  // Opens for reading, or for reading and writing unless options.read_only.
  // A size that is not a multiple of the logical block is rounded down with a warning; EINVAL if nothing is
  // left.
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
  // Block device: the kernel's disk sequence number, which changes for each disk that gets the same device
  // number. NBD server: number of times that it may have lost writes. 0: unknown, or another kind of device.
  std::uint64_t sequence() const noexcept { return sequence_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.nsectors * kSectorBytes; }
  std::uint64_t sectors() const noexcept { return geometry_.nsectors; }
  // Current size in bytes, read from the system. Blocks as long as the disk does; may be called from any
  // thread. Returns 0 if the size is unknown.
  std::uint64_t measure() const noexcept;
  // Sets the size that measure() returned; 0 changes nothing. An incomplete last block is not exported.
  void resize(std::uint64_t bytes) noexcept;
  bool read_only() const noexcept { return options_.read_only; }
  std::uint32_t delay_ms() const noexcept { return options_.delay_ms; }
  // Exported size and supported operations, as sent in OPEN_RSP.
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

  int fd() const noexcept { return fd_.get(); }                          // -1 for memory and NBD servers
  const std::shared_ptr<NbdDisk>& nbd() const noexcept { return nbd_; }  // null: not an NBD export
  std::uint64_t& nbd_seen() noexcept { return nbd_seen_; }               // value for NbdCommand::seen
  std::span<std::byte> memory() const noexcept { return region_ ? region_->bytes() : std::span<std::byte>(); }

  std::uint32_t page_size() const noexcept { return page_size_; }  // bytes; page size of memory()

  // Share of the device in the slots of the StorageEngine. All opens of one device use the same share.
  SlotShare& share() const noexcept { return *share_; }
  const std::shared_ptr<SlotShare>& common_share() const noexcept { return share_; }
  void use_share(std::shared_ptr<SlotShare> share) noexcept { share_ = std::move(share); }
  void leave_share() noexcept { share_.reset(); }  // no operation may be submitted after this
  bool owns_share() const noexcept {
    return share_.use_count() == 1;
  }  // true for the last open of the device

  // Operations submitted and not yet reported; counted by the StorageEngine.
  std::uint32_t in_flight() const noexcept { return in_flight_; }
  void begin_operation() noexcept { ++in_flight_; }
  void end_operation() noexcept { --in_flight_; }

 private:
  Export() = default;
  // Exports the whole blocks contained in `bytes`.
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
