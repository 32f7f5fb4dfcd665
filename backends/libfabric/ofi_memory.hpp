// Regions, the keys with which peers write to them, and internal buffers of the backend.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "core/fabric/fabric.hpp"
#include "core/fabric/key_sequence.hpp"

namespace rtrs::ofi {

// Memory for sending or receiving, registered if the provider requires it.
class Buffer {
 public:
  // Grows to at least `size` bytes; the contents are lost. Returns false if there is no memory; keeps the old
  // buffer then.
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
  // `regions` is the table of the Fabric base class, updated here. Both arguments must outlive this object.
  Memory(const Device&, const KeySequence::Secret&, std::vector<std::span<std::byte>>& regions);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // If this backend chooses keys: makes (rkey 0, address 0) valid for empty writes only. The key covers the
  // end of the address space, where no process has memory. An ordinary key would be unsafe: provider tcp
  // accepts a length that wraps around, which reaches memory after the start of the key.
  Errc expose_empty_range();

  Result<Region> allocate(std::size_t bytes);
  Result<Region> register_memory(std::span<std::byte>);
  void release(RegionId);
  // address() and descriptor() return the values for a work request. The part must be inside its region;
  // anything else is a programming error.
  void* address(const LocalPart&) const noexcept;
  void* descriptor(RegionId) const noexcept;

  Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length);
  void release_key(RemoteKeyId);
  // Invalidates the key; returns false if there is no such remote key.
  bool invalidate(RemoteKeyId) noexcept;
  Result<std::uint32_t> rebind(RemoteKeyId);

 private:
  struct Held {
    bool used = false;
    bool mapped = false;  // allocated here, so this object unmaps it
    MemoryHandle handle;  // registration for local access, if the provider requires one
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
  MemoryHandle empty_range_handle_;
};

}  // namespace rtrs::ofi
