// Memory regions, and the keys with which peers write to them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "core/fabric/key_sequence.hpp"
#include "core/iwarp/memory.hpp"
#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

// Connections on which a key is valid.
enum class Scope : std::uint8_t {
  any,
  path,        // all connections of the key's path
  connection,  // only the key's connection; the peer may invalidate the key
};

class Memory {
 public:
  // `regions` is the table of the Fabric base class, updated here; it must outlive this object. `died` is
  // called with each key after it was invalidated.
  Memory(Transport&, const KeySequence::Secret&, std::vector<std::span<std::byte>>& regions,
         std::function<void(std::uint32_t)> died);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Result<Region> allocate(std::size_t bytes);
  Result<Region> register_memory(std::span<std::byte>);
  void release(RegionId);
  // Returns the memory of a part. The part must be inside its region; anything else is a programming error.
  std::span<const std::byte> part(const LocalPart&) const noexcept;

  Result<RemoteKey> make_key(Scope, ConKey, RegionId, std::size_t offset, std::size_t length);
  void release_key(RemoteKeyId);
  // Invalidates the key; returns false if there is no such remote key.
  bool invalidate(RemoteKeyId) noexcept;
  Result<std::uint32_t> rebind(RemoteKeyId, ConKey);

  // See iwarp::Memory; `from` is the connection whose peer accesses the key.
  iwarp::Fault resolve(ConKey from, std::uint32_t key, std::uint64_t to, std::size_t n,
                       iwarp::MutableBytes& place) const noexcept;
  iwarp::Fault invalidate_by_peer(ConKey from, std::uint32_t key) noexcept;

 private:
  enum class Held : std::uint8_t { nothing, ours, callers };
  struct Slot {
    bool used = false;
    Scope scope = Scope::any;
    std::uint32_t key = 0;  // rkey; 0: the key is invalid
    RegionId region = kNoRegion;
    ConKey owner{};
    std::span<std::byte> bytes{};
  };

  Result<Region> add(std::span<std::byte>, Held);
  RemoteKeyId find(std::uint32_t key) const noexcept;
  void give_key(RemoteKeyId);
  void kill(RemoteKeyId) noexcept;
  void insert(std::uint32_t key, RemoteKeyId) noexcept;
  void erase(std::uint32_t key) noexcept;
  void grow_table();

  struct Entry {
    std::uint32_t key = 0;  // rkey; 0: the entry is free
    RemoteKeyId slot = 0;
  };

  Transport& transport_;
  KeySequence sequence_;
  std::vector<std::span<std::byte>>& regions_;
  std::function<void(std::uint32_t)> died_;
  std::vector<Held> held_;
  std::vector<std::uint32_t> keys_of_;  // number of keys per region
  std::vector<RegionId> free_regions_;
  std::deque<Slot> slots_;               // a deque never copies existing slots when it grows
  std::vector<RemoteKeyId> free_slots_;  // has capacity for all slots
  std::vector<Entry>
      table_;  // open addressing, at most half full; keys are evenly distributed, so they need no hashing
  std::size_t alive_ = 0;
};

}  // namespace rtrs::tcp
