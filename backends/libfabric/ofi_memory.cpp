#include "backends/libfabric/ofi_memory.hpp"

#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <limits>
#include <new>

#include "backends/libfabric/ofi_status.hpp"
#include "core/base/assert.hpp"

namespace rtrs::ofi {
namespace {

constexpr std::uint64_t kLocalUse = FI_SEND | FI_RECV | FI_WRITE;

int register_range(const Device& device, void* start, std::size_t length, std::uint64_t access,
                   std::uint64_t key, MemoryHandle& handle) {
  fid_mr* region = nullptr;
  const int result = fi_mr_reg(device.domain.get(), start, length, access, 0, key, 0, &region, nullptr);
  handle.reset(result == 0 ? region : nullptr);
  return result;
}

}  // namespace

bool Buffer::reserve(const Device& device, std::size_t size) noexcept {
  if (size <= size_) return true;
  std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[size]);
  if (bytes == nullptr) return false;
  MemoryHandle handle;
  if (device.local_keys &&
      register_range(device, bytes.get(), size, kLocalUse, device.local_key(), handle) != 0) {
    return false;
  }
  handle_ = std::move(handle);
  bytes_ = std::move(bytes);
  size_ = size;
  return true;
}

Memory::Memory(const Device& device, const KeySequence::Secret& secret,
               std::vector<std::span<std::byte>>& regions)
    : device_(device), keys_(secret), regions_(regions) {}

Memory::~Memory() {
  for (RegionId id = 0; id < held_.size(); ++id) {
    if (held_[id].used) release(id);
  }
}

Errc Memory::expose_empty_range() {
  // Providers that choose keys do not check the key of an empty write.
  if (device_.provider_keys) return Errc::ok;
  void* const nowhere = reinterpret_cast<void*>(~std::uintptr_t{0} - 4095);
  return to_errc(-register_range(device_, nowhere, 0, FI_REMOTE_WRITE, 0, empty_range_handle_));
}

Result<Region> Memory::allocate(std::size_t bytes) {
  if (bytes == 0) return tl::unexpected(Errc::invalid);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return tl::unexpected(Errc::no_memory);
  Result<Region> region = add(std::span(static_cast<std::byte*>(memory), bytes), true);
  if (!region) ::munmap(memory, bytes);
  return region;
}

Result<Region> Memory::register_memory(std::span<std::byte> memory) {
  if (memory.empty()) return tl::unexpected(Errc::invalid);
  return add(memory, false);
}

Result<Region> Memory::add(std::span<std::byte> memory, bool mapped) {
  MemoryHandle handle;
  if (device_.local_keys) {
    const int result =
        register_range(device_, memory.data(), memory.size(), kLocalUse, device_.local_key(), handle);
    if (result != 0) return tl::unexpected(to_errc(-result));
  }
  if (free_regions_.empty()) {
    free_regions_.push_back(static_cast<RegionId>(held_.size()));
    held_.emplace_back();
    regions_.emplace_back();
  }
  const RegionId id = free_regions_.back();
  free_regions_.pop_back();
  held_[id] = Held{.used = true, .mapped = mapped, .handle = std::move(handle)};
  regions_[id] = memory;
  return Region{.id = id, .bytes = memory};
}

void Memory::release(RegionId id) {
  RTRS_ASSERT(id < held_.size() && held_[id].used);
  for (RemoteKeyId remote_key = 0; remote_key < key_slots_.size(); ++remote_key) {
    if (key_slots_[remote_key].used && key_slots_[remote_key].region == id) release_key(remote_key);
  }
  const bool mapped = held_[id].mapped;
  held_[id] = Held{};
  if (mapped) ::munmap(regions_[id].data(), regions_[id].size());
  regions_[id] = {};
  free_regions_.push_back(id);
}

void* Memory::address(const LocalPart& part) const noexcept {
  RTRS_ASSERT(part.region < held_.size() && part.offset <= regions_[part.region].size() &&
              part.length <= regions_[part.region].size() - part.offset);
  return regions_[part.region].data() + part.offset;
}

void* Memory::descriptor(RegionId id) const noexcept {
  return held_[id].handle == nullptr ? nullptr : fi_mr_desc(held_[id].handle.get());
}

Result<MemoryHandle> Memory::register_remote(std::byte* start, std::size_t length) {
  MemoryHandle handle;
  int result = -FI_ENOKEY;
  // Tries further keys, because a key may still be in use after the sequence has wrapped around.
  for (unsigned attempt = 0; result == -FI_ENOKEY && attempt < 1000; ++attempt) {
    const std::uint64_t key = device_.provider_keys ? 0 : keys_.next();
    result = register_range(device_, start, length, FI_REMOTE_WRITE, key, handle);
  }
  if (result != 0) return tl::unexpected(to_errc(-result));
  if (fi_mr_key(handle.get()) > std::numeric_limits<std::uint32_t>::max()) {
    return tl::unexpected(Errc::not_supported);
  }
  return handle;
}

Result<RemoteKey> Memory::make_key(RegionId region, std::size_t offset, std::size_t length) {
  const std::span<std::byte> memory = regions_[region];
  if (offset > memory.size() || length == 0 || length > memory.size() - offset) {
    return tl::unexpected(Errc::invalid);
  }
  std::byte* start = memory.data() + offset;
  Result<MemoryHandle> handle = register_remote(start, length);
  if (!handle) return tl::unexpected(handle.error());
  if (free_keys_.empty()) {
    free_keys_.push_back(static_cast<RemoteKeyId>(key_slots_.size()));
    key_slots_.emplace_back();
  }
  const RemoteKeyId id = free_keys_.back();
  free_keys_.pop_back();
  const auto rkey = static_cast<std::uint32_t>(fi_mr_key(handle->get()));
  key_slots_[id] =
      KeySlot{.used = true, .region = region, .start = start, .length = length, .handle = std::move(*handle)};
  return RemoteKey{.id = id,
                   .rkey = rkey,
                   .remote_addr = device_.virtual_addresses ? reinterpret_cast<std::uintptr_t>(start) : 0};
}

void Memory::release_key(RemoteKeyId id) {
  RTRS_ASSERT(id < key_slots_.size() && key_slots_[id].used);
  key_slots_[id] = KeySlot{};
  free_keys_.push_back(id);
}

bool Memory::invalidate(RemoteKeyId id) noexcept {
  if (id >= key_slots_.size() || !key_slots_[id].used) return false;
  key_slots_[id].handle.reset();
  return true;
}

Result<std::uint32_t> Memory::rebind(RemoteKeyId id) {
  if (id >= key_slots_.size() || !key_slots_[id].used) return tl::unexpected(Errc::invalid);
  KeySlot& slot = key_slots_[id];
  Result<MemoryHandle> handle = register_remote(slot.start, slot.length);
  if (!handle) return tl::unexpected(handle.error());
  slot.handle = std::move(*handle);
  return static_cast<std::uint32_t>(fi_mr_key(slot.handle.get()));
}

}  // namespace rtrs::ofi
