#include "backends/verbs/verbs_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
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
  handle.reset(ibv_reg_mr(device.domain.get(), memory.data(), memory.size(), access));
  if (handle != nullptr) return true;
  const int error = errno;
  std::string text = device.name + ": cannot register " + std::to_string(memory.size() >> 10) +
                     " KiB of memory: " + errno_text(error);
  if (error == ENOMEM) text += memlock_advice(memory.size());
  say(options_, LogLevel::error, text);
  return false;
}

Errc Memory::adopt(Device& device) {
  if (devices_.size() <= device.index) devices_.resize(device.index + 1);
  for (RegionId id = 0; id < held_.size(); ++id) {
    if (!held_[id].used) continue;
    if (held_[id].handles.size() <= device.index) held_[id].handles.resize(device.index + 1);
    if (!enlist(regions_[id], device.access(), device, held_[id].handles[device.index])) {
      forget(device);
      return Errc::no_memory;
    }
  }
  for (Exposed& exposed : exposed_) {
    if (!exposed.used || exposed.device != nullptr) continue;
    if (exposed.handles.size() <= device.index) exposed.handles.resize(device.index + 1);
    if (!enlist({exposed.start, exposed.length}, kRemoteUse, device, exposed.handles[device.index])) {
      forget(device);
      return Errc::no_memory;
    }
  }
  devices_[device.index] = &device;
  return Errc::ok;
}

void Memory::forget(const Device& device) noexcept {
  std::erase_if(stored_windows_, [&](const Stored& stored) { return stored.device == &device; });
  for (Exposed& exposed : exposed_) {
    if (exposed.handles.size() > device.index) exposed.handles[device.index].reset();
    if (exposed.device != &device) continue;
    exposed.window.reset();
    exposed.handle.reset();
    exposed.open = false;
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
  // Large pages where there are any: less for the device to translate, and for the kernel to pin with each
  // IO.
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
  for (const Device* device : devices_) {
    if (device != nullptr && !enlist(memory, device->access(), *device, handles[device->index]))
      return tl::unexpected(Errc::no_memory);
  }
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
  for (ExposureId exposure = 0; exposure < exposed_.size(); ++exposure) {
    if (exposed_[exposure].used && exposed_[exposure].region == id) unexpose(exposure);
  }
  const bool mapped = held_[id].mapped;
  held_[id] = Held{};
  if (mapped) ::munmap(regions_[id].data(), regions_[id].size());
  regions_[id] = {};
  free_regions_.push_back(id);
}

const std::byte* Memory::address(const LocalPart& part) const noexcept {
  RTRS_ASSERT(part.region < held_.size() && part.offset <= regions_[part.region].size() &&
              part.length <= regions_[part.region].size() - part.offset);
  return regions_[part.region].data() + part.offset;
}

ibv_sge Memory::piece(const LocalPart& part, const Device& device) const noexcept {
  return {.addr = reinterpret_cast<std::uintptr_t>(address(part)),
          .length = part.length,
          .lkey = held_[part.region].handles[device.index]->lkey};
}

Result<Memory::Exposed*> Memory::open_exposure(RegionId region, std::size_t offset, std::size_t length,
                                               ExposureId& id) {
  const std::span<std::byte> memory = regions_[region];
  if (offset > memory.size() || length == 0 || length > memory.size() - offset)
    return tl::unexpected(Errc::invalid);
  if (free_exposures_.empty()) {
    free_exposures_.push_back(static_cast<ExposureId>(exposed_.size()));
    exposed_.emplace_back();
  }
  id = free_exposures_.back();
  free_exposures_.pop_back();
  Exposed& exposed = exposed_[id];
  exposed.used = true;
  exposed.region = region;
  exposed.start = memory.data() + offset;
  exposed.length = length;
  return &exposed;
}

Exposure Memory::describe(ExposureId id, std::uint32_t rkey) const noexcept {
  return {.id = id, .rkey = rkey, .remote_addr = reinterpret_cast<std::uintptr_t>(exposed_[id].start)};
}

Result<Exposure> Memory::expose(RegionId region, std::size_t offset, std::size_t length) {
  ExposureId id = kNoExposure;
  const Result<Exposed*> opened = open_exposure(region, offset, length, id);
  if (!opened) return tl::unexpected(opened.error());
  Exposed& exposed = **opened;
  exposed.handles.resize(devices_.size());
  std::uint32_t rkey = 0;
  for (const Device* device : devices_) {
    if (device == nullptr) continue;
    MemoryHandle& handle = exposed.handles[device->index];
    if (!enlist({exposed.start, length}, kRemoteUse, *device, handle)) {
      unexpose(id);
      return tl::unexpected(Errc::no_memory);
    }
    rkey = handle->rkey;
  }
  return describe(id, rkey);
}

Result<Exposure> Memory::expose_at(Device& device, RegionId region, std::size_t offset, std::size_t length) {
  ExposureId id = kNoExposure;
  const Result<Exposed*> opened = open_exposure(region, offset, length, id);
  if (!opened) return tl::unexpected(opened.error());
  (*opened)->device = &device;
  const Result<std::uint32_t> rkey = renew(id);
  if (rkey) return describe(id, *rkey);
  unexpose(id);
  return tl::unexpected(rkey.error());
}

WindowHandle Memory::take_window(Device& device, ibv_mw_type type) {
  const auto found = std::find_if(stored_windows_.begin(), stored_windows_.end(),
                                  [&](const Stored& stored) { return stored.device == &device; });
  if (type != IBV_MW_TYPE_2 || found == stored_windows_.end())
    return WindowHandle(ibv_alloc_mw(device.domain.get(), type));
  WindowHandle window = std::move(found->window);
  *found = std::move(stored_windows_.back());
  stored_windows_.pop_back();
  return window;
}

Result<Exposure> Memory::expose_window(Device& device, ibv_mw_type type, RegionId region, std::size_t offset,
                                       std::size_t length) {
  ExposureId id = kNoExposure;
  const Result<Exposed*> opened = open_exposure(region, offset, length, id);
  if (!opened) return tl::unexpected(opened.error());
  (*opened)->device = &device;
  (*opened)->window = take_window(device, type);
  if ((*opened)->window != nullptr) return describe(id, (*opened)->window->rkey);
  say(options_, LogLevel::error, device.name + ": cannot make a memory window: " + errno_text(errno));
  unexpose(id);
  return tl::unexpected(Errc::no_memory);
}

void Memory::unexpose(ExposureId id) noexcept {
  RTRS_ASSERT(exists(id));
  Exposed& exposed = exposed_[id];
  // A window that is still bound is not bound again: undoing it by a work request would race the peer's doing
  // so, and invalidating a window that is not bound takes soft-RoCE's whole kernel down.
  const bool again = exposed.window != nullptr && exposed.window->type == IBV_MW_TYPE_2 && !exposed.open;
  if (again) stored_windows_.push_back({exposed.device, std::move(exposed.window)});
  exposed = Exposed{};
  free_exposures_.push_back(id);
}

std::uint32_t Memory::rkey(const Device& device, ExposureId id) const noexcept {
  if (!exists(id)) return 0;
  const Exposed& exposed = exposed_[id];
  if (exposed.window != nullptr) return exposed.window->rkey;
  if (exposed.device != nullptr) return exposed.handle == nullptr ? 0 : exposed.handle->rkey;
  const bool there = exposed.handles.size() > device.index && exposed.handles[device.index] != nullptr;
  return there ? exposed.handles[device.index]->rkey : 0;
}

void Memory::bind_to(ExposureId id, ConKey owner) noexcept {
  exposed_[id].owner = owner;
}

// A queue pair is held by the windows that are bound to it: on soft-RoCE its end waits for them in vain, for
// the better part of a second, and the kernel warns.
void Memory::drop_windows_of(ConKey owner) noexcept {
  for (Exposed& exposed : exposed_) {
    if (exposed.used && exposed.window != nullptr && exposed.owner == owner) exposed.window.reset();
  }
}

WindowBind Memory::window_open(ExposureId id) const noexcept {
  const Exposed& exposed = exposed_[id];
  WindowBind bind;
  bind.window = exposed.window.get();
  bind.info.mr = held_[exposed.region].handles[exposed.device->index].get();
  bind.info.addr = reinterpret_cast<std::uintptr_t>(exposed.start);
  bind.info.length = exposed.length;
  bind.info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
  return bind;
}

WindowBind Memory::window_closed(ExposureId id) const noexcept {
  WindowBind bind = window_open(id);
  // The library of soft-RoCE wants the registration even where there is nothing to bind.
  bind.info.length = 0;
  return bind;
}

void Memory::withdraw(ExposureId id) noexcept {
  exposed_[id].handle.reset();
}

Result<std::uint32_t> Memory::renew(ExposureId id) {
  Exposed& exposed = exposed_[id];
  // An offer lost its window with its connection; a registration would be a key that nothing takes back.
  RTRS_ASSERT(exposed.owner == ConKey{});
  if (exposed.device == nullptr || exposed.device->gone) return tl::unexpected(Errc::invalid);
  if (!enlist({exposed.start, exposed.length}, kRemoteUse, *exposed.device, exposed.handle))
    return tl::unexpected(Errc::no_memory);
  return exposed.handle->rkey;
}

void Memory::killed(std::uint32_t rkey) noexcept {
  for (Exposed& exposed : exposed_) {
    if (exposed.window != nullptr && exposed.window->rkey == rkey) exposed.open = false;
  }
}

}  // namespace rtrs::verbs
