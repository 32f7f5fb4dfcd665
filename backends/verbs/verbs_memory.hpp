// Regions and the keys under which peers write to them. Where one device is in use, they are registered with
// it when they are made; where there are several, with each that needs them, when it does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/verbs/verbs_device.hpp"
#include "backends/verbs/verbs_handles.hpp"
#include "core/base/assert.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::verbs {

// A window that is to be bound by a work request. The memory behind it is that of `bind_info`.
struct WindowBind {
  ibv_mw* window = nullptr;
  ibv_mw_bind_info info{};
  RegionId region = kNoRegion;
  RemoteKeyId key = kNoRemoteKey;
};

class Memory {
 public:
  // `regions` is the table of the Fabric base class, kept up to date here. Both outlive this object.
  Memory(const VerbsOptions&, std::vector<std::span<std::byte>>& regions);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // A device that is new, or gives up everything there.
  void adopt(Device&);
  void forget(const Device&) noexcept;

  Result<Region> allocate(std::size_t bytes);
  Result<Region> register_memory(std::span<std::byte>);
  void release(RegionId);
  // For a work request; a part outside its region is a programming error. False: the region is not registered
  // there yet.
  bool piece(const LocalPart& part, const Device& device, ibv_sge& piece) const noexcept {
    RTRS_ASSERT(part.region < held_.size() && part.offset <= regions_[part.region].size() &&
                part.length <= regions_[part.region].size() - part.offset);
    const ibv_mr* const region = known(part.region, device);
    if (region == nullptr) return false;
    piece.addr = reinterpret_cast<std::uintptr_t>(regions_[part.region].data() + part.offset);
    piece.length = part.length;
    piece.lkey = region->lkey;
    return true;
  }
  // The registration of the region there; made if need be. nullptr: the device has no room for it, which the
  // log says.
  ibv_mr* registered(RegionId, const Device&) noexcept;

  // For the peers of all connections.
  Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length);
  // For those of one device, as a registration.
  Result<RemoteKey> make_key_at(Device&, RegionId, std::size_t offset, std::size_t length);
  // The same as a window that binding has to open. Type 2 windows come from a store.
  Result<RemoteKey> make_window(Device&, ibv_mw_type, RegionId, std::size_t offset, std::size_t length);
  void release_key(RemoteKeyId) noexcept;
  // The work request that binds its window last.
  struct LastBind {
    ConKey on{};
    std::uint64_t number = 0;
    std::uint64_t heard = 0;  // of the peer, by then
  };
  LastBind& last_bind(RemoteKeyId id) noexcept { return key_slots_[id].last_bind; }
  // The peer killed the key, so what bound its window was carried out.
  bool was_killed(RemoteKeyId id) const noexcept { return !key_slots_[id].open; }
  // The key is without its window from now on.
  WindowHandle part_with_window(RemoteKeyId) noexcept;

  bool exists(RemoteKeyId id) const noexcept { return id < key_slots_.size() && key_slots_[id].used; }
  bool is_window(RemoteKeyId id) const noexcept { return key_slots_[id].window != nullptr; }
  const ibv_mw* window(RemoteKeyId id) const noexcept { return key_slots_[id].window.get(); }
  std::uint32_t rkey(const Device& device, RemoteKeyId id) const noexcept {
    const bool by_window = exists(id) && is_window(id);
    return by_window ? key_slots_[id].window->rkey : rkey_of_registration(device, id);
  }
  // The registration behind a key that is one; nullptr: it is a window, or not made yet.
  const ibv_mr* made_key(const Device& device, RemoteKeyId id) const noexcept {
    if (!exists(id)) return nullptr;
    const std::vector<MemoryHandle>& handles = key_slots_[id].handles;
    return handles.size() > device.index ? handles[device.index].get() : nullptr;
  }
  // The same, made where it is not yet, and its region with it, from which answers are sent. Nothing: the
  // device has no room, which the log says.
  std::optional<std::uint32_t> provide(const Device&, RemoteKeyId) noexcept;
  // The window of this remote key can be opened only by this connection, and goes before its queue pair does.
  void bind_to(RemoteKeyId id, ConKey owner) noexcept { key_slots_[id].owner = owner; }
  void drop_windows_of(ConKey) noexcept;
  // What opens the window, or, with nothing open behind it, closes it.
  WindowBind window_open(RemoteKeyId id) const noexcept {
    const KeySlot& slot = key_slots_[id];
    WindowBind bind;
    bind.window = slot.window.get();
    bind.info.mr = held_[slot.region].handles[slot.device->index].get();
    bind.info.addr = reinterpret_cast<std::uintptr_t>(slot.start);
    bind.info.length = slot.length;
    bind.info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    bind.region = slot.region;
    bind.key = id;
    return bind;
  }
  WindowBind window_closed(RemoteKeyId) const noexcept;
  // Undo and redo the registration of a remote key that is none for all connections.
  void withdraw(RemoteKeyId) noexcept;
  Result<std::uint32_t> rebind(RemoteKeyId);
  // The peer killed this key: its window may serve again.
  void killed(const Device&, std::uint32_t rkey) noexcept;

 private:
  struct Held {
    bool used = false;
    bool mapped = false;                // ours to unmap
    std::vector<MemoryHandle> handles;  // by device
  };
  struct KeySlot {
    bool used = false;
    bool open = true;  // false: the peer killed the key
    RegionId region = kNoRegion;
    std::byte* start = nullptr;
    std::size_t length = 0;
    Device* device = nullptr;           // of a window, or of the only registration
    std::vector<MemoryHandle> handles;  // by device
    MemoryHandle handle;
    WindowHandle window;
    // Of a window of type 2, in windows_.
    RemoteKeyId* named_by = nullptr;
    LastBind last_bind;
    ConKey owner{};  // of a window that only one connection can open
    void clear() noexcept {
      used = false;
      open = true;
      device = nullptr;
      handles.clear();
      handle.reset();
      window.reset();
      named_by = nullptr;
      last_bind = LastBind{};
      owner = ConKey{};
    }
  };
  struct Stored {
    Device* device;
    WindowHandle window;
    RemoteKeyId* named_by;
  };
  std::uint32_t rkey_of_registration(const Device&, RemoteKeyId) const noexcept;
  ibv_mr* known(RegionId id, const Device& device) const noexcept {
    const std::vector<MemoryHandle>& handles = held_[id].handles;
    return handles.size() > device.index ? handles[device.index].get() : nullptr;
  }
  Result<Region> add(std::span<std::byte>, bool mapped);
  bool enlist(std::span<std::byte>, int access, const Device&, MemoryHandle&) const;
  const Device* only_device() const noexcept;
  static std::uint64_t number_of(const Device&, std::uint32_t rkey) noexcept;
  void drop_window(KeySlot&) noexcept;
  // nullptr: it is not within the region.
  inline KeySlot* open_key(RegionId, std::size_t offset, std::size_t length, RemoteKeyId&);
  RemoteKey describe(RemoteKeyId, std::uint32_t rkey) const noexcept;
  // A window of a key; false: there is none to be had.
  inline bool take_window(Device&, ibv_mw_type, RemoteKeyId);

  const VerbsOptions& options_;
  std::vector<Device*> devices_;  // by index; nullptr: none
  std::vector<std::span<std::byte>>& regions_;
  std::vector<Held> held_;
  std::vector<RegionId> free_regions_;
  std::vector<KeySlot> key_slots_;
  std::vector<RemoteKeyId> free_keys_;
  std::vector<Stored> stored_windows_;  // of type 2, bound to nothing
  // Of type 2, by device and by what stays of their keys: whose they are, kNoRemoteKey of stored ones. Each
  // knows its place here, for requests come and go with them.
  std::unordered_map<std::uint64_t, RemoteKeyId> windows_;
};

}  // namespace rtrs::verbs
