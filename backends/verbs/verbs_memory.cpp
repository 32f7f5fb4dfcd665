#include "backends/verbs/verbs_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "backends/verbs/verbs_status.hpp"
#include "core/base/assert.hpp"

namespace rtrs::verbs {
namespace {

constexpr int kRemoteUse = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

Memory::Memory(const VerbsOptions& options, std::vector<std::span<std::byte>>& regions)
    : options_(options), regions_(regions) {}

Memory::~Memory() {
  for (RegionId id = 0; id < held_.size(); ++id) {
    if (held_[id].used) release(id);
  }
}

bool Memory::enlist(std::span<std::byte> memory, int access, const Device& device,
                    MemoryHandle& handle) const {
  if (options_.relaxed_ordering) access |= IBV_ACCESS_RELAXED_ORDERING;
  handle.reset(ibv_reg_mr(device.domain.get(), memory.data(), memory.size(), access));
  if (handle != nullptr) return true;
  const int error = errno;
  std::string text = device.name + ": cannot register " + std::to_string(memory.size() >> 10) +
                     " KiB of memory: " + errno_text(error);
  if (error == ENOMEM) text += memlock_advice(memory.size());
  say(options_, LogLevel::error, text);
  return false;
}

void Memory::adopt(Device& device) {
  if (devices_.size() <= device.index) devices_.resize(device.index + 1);
  devices_[device.index] = &device;
}

const Device* Memory::only_device() const noexcept {
  const auto there = [](const Device* device) { return device != nullptr; };
  const auto first = std::find_if(devices_.begin(), devices_.end(), there);
  const bool one = first != devices_.end() && std::none_of(first + 1, devices_.end(), there);
  return one ? *first : nullptr;
}

ibv_mr* Memory::registered(RegionId id, const Device& device) noexcept {
  std::vector<MemoryHandle>& handles = held_[id].handles;
  try {
    if (handles.size() <= device.index) handles.resize(device.index + 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  MemoryHandle& handle = handles[device.index];
  if (handle == nullptr && !enlist(regions_[id], device.access(), device, handle)) return nullptr;
  return handle.get();
}

std::optional<std::uint32_t> Memory::provide(const Device& device, RemoteKeyId id) noexcept {
  if (!exists(id) || key_slots_[id].device != nullptr) return rkey(device, id);
  KeySlot& slot = key_slots_[id];
  try {
    if (slot.handles.size() <= device.index) slot.handles.resize(device.index + 1);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  MemoryHandle& handle = slot.handles[device.index];
  if (handle == nullptr && (registered(slot.region, device) == nullptr ||
                            !enlist({slot.start, slot.length}, kRemoteUse, device, handle)))
    return std::nullopt;
  return handle->rkey;
}

// Returns the part of an rkey that stays the same: the last eight bits change with each binding.
std::uint64_t Memory::number_of(const Device& device, std::uint32_t rkey) noexcept {
  return std::uint64_t{device.index} << 32U | rkey >> 8U;
}

void Memory::drop_window(KeySlot& slot) noexcept {
  if (slot.window != nullptr && slot.window->type == IBV_MW_TYPE_2)
    windows_.erase(number_of(*slot.device, slot.window->rkey));
  slot.window.reset();
}

void Memory::forget(const Device& device) noexcept {
  std::erase_if(stored_windows_, [&](const Stored& stored) { return stored.device == &device; });
  std::erase_if(windows_, [&](const auto& one) { return one.first >> 32U == device.index; });
  for (KeySlot& slot : key_slots_) {
    if (slot.handles.size() > device.index) slot.handles[device.index].reset();
    if (slot.device != &device) continue;
    slot.window.reset();
    slot.handle.reset();
    slot.open = false;
  }
  for (Held& held : held_) {
    if (held.handles.size() > device.index) held.handles[device.index].reset();
  }
  if (devices_.size() > device.index) devices_[device.index] = nullptr;
}

Result<Region> Memory::allocate(std::size_t bytes) {
  if (bytes == 0) return tl::unexpected(Errc::invalid);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return tl::unexpected(Errc::no_memory);
  // Huge pages if available: fewer translations in the device and fewer pages for the kernel to pin per IO.
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno == ENOMEM) {
    ::munmap(memory, bytes);
    return tl::unexpected(Errc::no_memory);
  }
  Result<Region> region = add(std::span(static_cast<std::byte*>(memory), bytes), true);
  if (!region) ::munmap(memory, bytes);
  return region;
}

Result<Region> Memory::register_memory(std::span<std::byte> memory) {
  if (memory.empty()) return tl::unexpected(Errc::invalid);
  return add(memory, false);
}

Result<Region> Memory::add(std::span<std::byte> memory, bool mapped) {
  std::vector<MemoryHandle> handles(devices_.size());
  const Device* const device = only_device();
  if (device != nullptr && !enlist(memory, device->access(), *device, handles[device->index]))
    return tl::unexpected(Errc::no_memory);
  if (free_regions_.empty()) {
    free_regions_.push_back(static_cast<RegionId>(held_.size()));
    held_.emplace_back();
    regions_.emplace_back();
  }
  const RegionId id = free_regions_.back();
  free_regions_.pop_back();
  held_[id].used = true;
  held_[id].mapped = mapped;
  held_[id].handles = std::move(handles);
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

[[gnu::always_inline]] inline Memory::KeySlot* Memory::open_key(RegionId region, std::size_t offset,
                                                                std::size_t length, RemoteKeyId& id) {
  const std::span<std::byte> memory = regions_[region];
  if (offset > memory.size() || length == 0 || length > memory.size() - offset) return nullptr;
  if (free_keys_.empty()) {
    free_keys_.push_back(static_cast<RemoteKeyId>(key_slots_.size()));
    key_slots_.emplace_back();
  }
  id = free_keys_.back();
  free_keys_.pop_back();
  KeySlot& slot = key_slots_[id];
  slot.used = true;
  slot.region = region;
  slot.start = memory.data() + offset;
  slot.length = length;
  return &slot;
}

RemoteKey Memory::describe(RemoteKeyId id, std::uint32_t rkey) const noexcept {
  return {.id = id, .rkey = rkey, .remote_addr = reinterpret_cast<std::uintptr_t>(key_slots_[id].start)};
}

Result<RemoteKey> Memory::make_key(RegionId region, std::size_t offset, std::size_t length) {
  RemoteKeyId id = kNoRemoteKey;
  KeySlot* const opened = open_key(region, offset, length, id);
  if (opened == nullptr) return tl::unexpected(Errc::invalid);
  const Device* const device = only_device();
  if (device == nullptr) return describe(id, 0);
  const std::optional<std::uint32_t> rkey = provide(*device, id);
  if (rkey) return describe(id, *rkey);
  release_key(id);
  return tl::unexpected(Errc::no_memory);
}

Result<RemoteKey> Memory::make_key_at(Device& device, RegionId region, std::size_t offset,
                                      std::size_t length) {
  RemoteKeyId id = kNoRemoteKey;
  KeySlot* const opened = open_key(region, offset, length, id);
  if (opened == nullptr) return tl::unexpected(Errc::invalid);
  opened->device = &device;
  const Result<std::uint32_t> rkey = rebind(id);
  if (rkey) return describe(id, *rkey);
  release_key(id);
  return tl::unexpected(rkey.error());
}

[[gnu::always_inline]] inline bool Memory::take_window(Device& device, ibv_mw_type type, RemoteKeyId id) {
  KeySlot& slot = key_slots_[id];
  auto found = stored_windows_.begin();
  while (found != stored_windows_.end() && found->device != &device) ++found;
  if (type == IBV_MW_TYPE_2 && found != stored_windows_.end()) {
    slot.window = std::move(found->window);
    slot.windows_entry = found->windows_entry;
    *found = std::move(stored_windows_.back());
    stored_windows_.pop_back();
  } else {
    slot.window.reset(ibv_alloc_mw(device.domain.get(), type));
    if (slot.window == nullptr) return false;
    if (type == IBV_MW_TYPE_2) slot.windows_entry = &windows_[number_of(device, slot.window->rkey)];
  }
  if (slot.windows_entry != nullptr) *slot.windows_entry = id;
  return true;
}

Result<RemoteKey> Memory::make_window(Device& device, ibv_mw_type type, RegionId region, std::size_t offset,
                                      std::size_t length) {
  RemoteKeyId id = kNoRemoteKey;
  KeySlot* const opened = open_key(region, offset, length, id);
  if (opened == nullptr) return tl::unexpected(Errc::invalid);
  opened->device = &device;
  if (known(region, device) == nullptr && registered(region, device) == nullptr) {
    release_key(id);
    return tl::unexpected(Errc::no_memory);
  }
  if (take_window(device, type, id)) return describe(id, opened->window->rkey);
  say(options_, LogLevel::error, device.name + ": cannot make a memory window: " + errno_text(errno));
  release_key(id);
  return tl::unexpected(Errc::no_memory);
}

void Memory::release_key(RemoteKeyId id) noexcept {
  RTRS_ASSERT(exists(id));
  KeySlot& slot = key_slots_[id];
  // A window that is still bound is not reused. Unbinding it by a work request would race with the peer's
  // invalidation, and invalidating an unbound window crashes the kernel with soft-RoCE.
  const bool again = slot.window != nullptr && slot.window->type == IBV_MW_TYPE_2 && !slot.open;
  if (again) {
    *slot.windows_entry = kNoRemoteKey;
    stored_windows_.push_back({slot.device, std::move(slot.window), slot.windows_entry});
  }
  if (!again) drop_window(slot);
  slot.clear();
  free_keys_.push_back(id);
}

std::uint32_t Memory::rkey_of_registration(const Device& device, RemoteKeyId id) const noexcept {
  if (!exists(id)) return 0;
  const KeySlot& slot = key_slots_[id];
  if (slot.device != nullptr) return slot.handle == nullptr ? 0 : slot.handle->rkey;
  const bool there = slot.handles.size() > device.index && slot.handles[device.index] != nullptr;
  return there ? slot.handles[device.index]->rkey : 0;
}

WindowHandle Memory::detach_window(RemoteKeyId id) noexcept {
  KeySlot& slot = key_slots_[id];
  windows_.erase(number_of(*slot.device, slot.window->rkey));
  return std::move(slot.window);
}

// Windows bound to a queue pair hold a reference to it. On soft-RoCE, destroying the queue pair would wait
// almost a second for the windows to be freed, and then the kernel would log a warning.
void Memory::drop_windows_of(ConKey owner) noexcept {
  for (KeySlot& slot : key_slots_) {
    if (slot.used && slot.window != nullptr && slot.owner == owner) drop_window(slot);
  }
}

WindowBind Memory::window_closed(RemoteKeyId id) const noexcept {
  WindowBind bind = window_open(id);
  // The soft-RoCE library requires the registration even if the length is 0.
  bind.info.length = 0;
  return bind;
}

void Memory::withdraw(RemoteKeyId id) noexcept {
  key_slots_[id].handle.reset();
}

Result<std::uint32_t> Memory::rebind(RemoteKeyId id) {
  KeySlot& slot = key_slots_[id];
  // No window with an owner may get here: such windows were lost together with their connection. A
  // registration in place of the window would be a key that nothing invalidates.
  RTRS_ASSERT(slot.owner == ConKey{});
  if (slot.device == nullptr || slot.device->gone) return tl::unexpected(Errc::invalid);
  if (!enlist({slot.start, slot.length}, kRemoteUse, *slot.device, slot.handle))
    return tl::unexpected(Errc::no_memory);
  return slot.handle->rkey;
}

void Memory::killed(const Device& device, std::uint32_t rkey) noexcept {
  const auto found = windows_.find(number_of(device, rkey));
  if (found == windows_.end() || found->second == kNoRemoteKey) return;
  KeySlot& slot = key_slots_[found->second];
  if (slot.window != nullptr && slot.window->rkey == rkey) slot.open = false;
}

}  // namespace rtrs::verbs
