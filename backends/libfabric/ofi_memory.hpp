// Regions, the keys under which peers write to them, and buffers of the backend itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "backends/libfabric/ofi_key_sequence.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::ofi {

// Memory the backend sends from or receives into, registered where the provider wants that.
class Buffer {
 public:
  // Grows to at least `size` bytes; contents are lost. False: out of memory, the old buffer is kept.
  bool reserve(const Device&, std::size_t size) noexcept;
  std::byte* data() noexcept { return bytes_.get(); }
  void* descriptor() noexcept { return handle_ == nullptr ? nullptr : fi_mr_desc(handle_.get()); }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  MemoryHandle handle_;
};

class Memory {
 public:
  // `regions` is the table of the Fabric base class, kept up to date here. Both outlive this object.
  Memory(const Device&, std::uint64_t key_secret, std::vector<std::span<std::byte>>& regions);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Where keys are ours, makes (rkey 0, address 0) good for empty writes, and for nothing else: it names the
  // end of the address space, where no process has memory. Provider tcp lets a length that wraps around reach
  // whatever lies behind the start of a key.
  Errc expose_nothing();

  Result<Region> allocate(std::size_t bytes);
  Result<Region> register_memory(std::span<std::byte>);
  void release(RegionId);
  // Address and descriptor for a work request; a part outside its region is a programming error.
  void* address(const LocalPart&) const noexcept;
  void* descriptor(RegionId) const noexcept;

  Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length);
  void release_key(RemoteKeyId);
  // Makes the key dead; false when there is no such remote key.
  bool invalidate(RemoteKeyId) noexcept;
  Result<std::uint32_t> rebind(RemoteKeyId);

 private:
  struct Held {
    bool used = false;
    bool mapped = false;  // ours to unmap
    MemoryHandle handle;  // for local use, where needed
  };
  struct KeySlot {
    bool used = false;
    RegionId region = kNoRegion;
    std::byte* start = nullptr;
    std::size_t length = 0;
    MemoryHandle handle;  // empty while invalidated
  };
  Result<Region> add(std::span<std::byte>, bool mapped);
  Result<MemoryHandle> register_remote(std::byte* start, std::size_t length);

  const Device& device_;
  KeySequence keys_;
  std::vector<std::span<std::byte>>& regions_;
  std::vector<Held> held_;
  std::vector<RegionId> free_regions_;
  std::vector<KeySlot> key_slots_;
  std::vector<RemoteKeyId> free_keys_;
  MemoryHandle nothing_handle_;
};

}  // namespace rtrs::ofi
