// Regions, and the keys with which peers write to them. With one device, regions are registered when they are
// created; with several, on first use by each device.
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

// A window to be bound by a work request. `info` describes the memory of the window.
struct WindowBind {
  ibv_mw* window = nullptr;
  ibv_mw_bind_info info{};
  RegionId region = kNoRegion;
  RemoteKeyId key = kNoRemoteKey;
};

class Memory {
 public:
  // `regions` is the table of the Fabric base class, updated here. Both arguments must outlive this object.
  Memory(const VerbsOptions&, std::vector<std::span<std::byte>>& regions);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // adopt() adds a device. forget() drops everything that belongs to a device.
  void adopt(Device&);
  void forget(const Device&) noexcept;

  Result<Region> allocate(std::size_t bytes);
  Result<Region> register_memory(std::span<std::byte>);
  void release(RegionId);
  // Fills the piece of a work request; a part outside its region is a programming error. Returns false if the
  // region is not registered with the device yet.
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
  // Returns the registration of the region with the device, and creates it if needed. Returns nullptr if the
  // device has no room; logged.
  ibv_mr* registered(RegionId, const Device&) noexcept;

  // Creates a key for the peers of all connections.
  Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length);
  // Creates a key, as a registration, for the peers of one device.
  Result<RemoteKey> make_key_at(Device&, RegionId, std::size_t offset, std::size_t length);
  // Creates a key as a memory window, which must be bound before use. Type 2 windows are taken from a pool.
  Result<RemoteKey> make_window(Device&, ibv_mw_type, RegionId, std::size_t offset, std::size_t length);
  void release_key(RemoteKeyId) noexcept;
  // The most recent work request that binds the window of a key.
  struct LastBind {
    ConKey on{};
    std::uint64_t number = 0;
    std::uint64_t heard = 0;  // receives filled by the peer at that time
  };
  LastBind& last_bind(RemoteKeyId id) noexcept { return key_slots_[id].last_bind; }
  // True if the peer invalidated the key, which proves that the binding of its window was executed.
  bool was_killed(RemoteKeyId id) const noexcept { return !key_slots_[id].open; }
  // Removes the window from the key and returns it.
  WindowHandle detach_window(RemoteKeyId) noexcept;

  bool exists(RemoteKeyId id) const noexcept { return id < key_slots_.size() && key_slots_[id].used; }
  bool is_window(RemoteKeyId id) const noexcept { return key_slots_[id].window != nullptr; }
  const ibv_mw* window(RemoteKeyId id) const noexcept { return key_slots_[id].window.get(); }
  std::uint32_t rkey(const Device& device, RemoteKeyId id) const noexcept {
    const bool by_window = exists(id) && is_window(id);
    return by_window ? key_slots_[id].window->rkey : rkey_of_registration(device, id);
  }
  // Returns the registration of a key, or nullptr if the key is a window or is not registered yet.
  const ibv_mr* find_registration(const Device& device, RemoteKeyId id) const noexcept {
    if (!exists(id)) return nullptr;
    const std::vector<MemoryHandle>& handles = key_slots_[id].handles;
    return handles.size() > device.index ? handles[device.index].get() : nullptr;
  }
  // Like find_registration(), but registers the key, and its region for sending responses, if needed. Returns
  // nullopt if the device has no room; logged.
  std::optional<std::uint32_t> provide(const Device&, RemoteKeyId) noexcept;
  // From now on only this connection can bind the window, which is freed before the connection's queue pair.
  void bind_to(RemoteKeyId id, ConKey owner) noexcept { key_slots_[id].owner = owner; }
  void drop_windows_of(ConKey) noexcept;
  // window_open() returns the work request that binds the window. window_closed() returns the work request
  // that unbinds the window by binding a length of 0.
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
  // withdraw() deregisters a remote key that is not for all connections; rebind() registers it again.
  void withdraw(RemoteKeyId) noexcept;
  Result<std::uint32_t> rebind(RemoteKeyId);
  // Call after the peer invalidated this key, whose window may then be reused.
  void killed(const Device&, std::uint32_t rkey) noexcept;

 private:
  struct Held {
    bool used = false;
    bool mapped = false;                // allocated here, so this object unmaps it
    std::vector<MemoryHandle> handles;  // indexed by device
  };
  struct KeySlot {
    bool used = false;
    bool open = true;  // false: the peer invalidated the key
    RegionId region = kNoRegion;
    std::byte* start = nullptr;
    std::size_t length = 0;
    Device* device = nullptr;           // device of the window, or of the only registration
    std::vector<MemoryHandle> handles;  // indexed by device
    MemoryHandle handle;
    WindowHandle window;
    // Entry in windows_, for a window of type 2.
    RemoteKeyId* windows_entry = nullptr;
    LastBind last_bind;
    ConKey owner{};  // set for a window that only one connection can bind
    void clear() noexcept {
      used = false;
      open = true;
      device = nullptr;
      handles.clear();
      handle.reset();
      window.reset();
      windows_entry = nullptr;
      last_bind = LastBind{};
      owner = ConKey{};
    }
  };
  struct Stored {
    Device* device;
    WindowHandle window;
    RemoteKeyId* windows_entry;
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
  // Returns nullptr if the range is not within the region.
  inline KeySlot* open_key(RegionId, std::size_t offset, std::size_t length, RemoteKeyId&);
  RemoteKey describe(RemoteKeyId, std::uint32_t rkey) const noexcept;
  // Takes a window for a key; returns false if none is available.
  inline bool take_window(Device&, ibv_mw_type, RemoteKeyId);

  const VerbsOptions& options_;
  std::vector<Device*> devices_;  // indexed by Device::index; nullptr: none
  std::vector<std::span<std::byte>>& regions_;
  std::vector<Held> held_;
  std::vector<RegionId> free_regions_;
  std::vector<KeySlot> key_slots_;
  std::vector<RemoteKeyId> free_keys_;
  std::vector<Stored> stored_windows_;  // unbound windows of type 2
  // Type 2 windows, keyed by device and the constant part of their keys: the remote key that uses each,
  // kNoRemoteKey for pooled ones. Each window has a pointer to its entry, because windows are used and
  // returned per request.
  std::unordered_map<std::uint64_t, RemoteKeyId> windows_;
};

}  // namespace rtrs::verbs
