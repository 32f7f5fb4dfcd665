#include "core/tcp/tcp_memory.hpp"

#include <utility>

#include "core/base/assert.hpp"

namespace rtrs::tcp {
namespace {

constexpr std::size_t kFirstTable = 64;

}  // namespace

Memory::Memory(Transport& transport, const KeySequence::Secret& secret,
               std::vector<std::span<std::byte>>& regions, std::function<void(std::uint32_t)> died)
    : transport_(transport),
      sequence_(secret),
      regions_(regions),
      died_(std::move(died)),
      table_(kFirstTable) {}

Memory::~Memory() {
  for (RegionId id = 0; id < held_.size(); ++id) {
    if (held_[id] == Held::ours) transport_.unmap(regions_[id]);
  }
}

Result<Region> Memory::allocate(std::size_t bytes) {
  if (bytes == 0) return tl::unexpected(Errc::invalid);
  const std::span<std::byte> memory = transport_.map(bytes);
  if (memory.empty()) return tl::unexpected(Errc::no_memory);
  return add(memory, Held::ours);
}

Result<Region> Memory::register_memory(std::span<std::byte> memory) {
  if (memory.empty()) return tl::unexpected(Errc::invalid);
  return add(memory, Held::callers);
}

Result<Region> Memory::add(std::span<std::byte> memory, Held held) {
  if (free_regions_.empty()) {
    free_regions_.push_back(static_cast<RegionId>(held_.size()));
    held_.push_back(Held::nothing);
    keys_of_.push_back(0);
    regions_.emplace_back();
  }
  const RegionId id = free_regions_.back();
  free_regions_.pop_back();
  held_[id] = held;
  regions_[id] = memory;
  return Region{.id = id, .bytes = memory};
}

void Memory::release(RegionId id) {
  RTRS_ASSERT(id < held_.size() && held_[id] != Held::nothing);
  // Usually the keys were released before, so that the end of a session does not search all keys.
  for (RemoteKeyId key = 0; keys_of_[id] != 0; ++key) {
    if (slots_[key].used && slots_[key].region == id) release_key(key);
  }
  if (held_[id] == Held::ours) transport_.unmap(regions_[id]);
  held_[id] = Held::nothing;
  regions_[id] = {};
  free_regions_.push_back(id);
}

std::span<const std::byte> Memory::part(const LocalPart& part) const noexcept {
  RTRS_ASSERT(part.region < held_.size() && part.offset <= regions_[part.region].size() &&
              part.length <= regions_[part.region].size() - part.offset);
  return regions_[part.region].subspan(part.offset, part.length);
}

RemoteKeyId Memory::find(std::uint32_t key) const noexcept {
  if (key == 0) return kNoRemoteKey;
  const std::size_t mask = table_.size() - 1;
  for (std::size_t at = key & mask; table_[at].key != 0; at = (at + 1) & mask) {
    if (table_[at].key == key) return table_[at].slot;
  }
  return kNoRemoteKey;
}

void Memory::insert(std::uint32_t key, RemoteKeyId slot) noexcept {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = key & mask;
  while (table_[at].key != 0) at = (at + 1) & mask;
  table_[at] = {.key = key, .slot = slot};
}

// Removes a key. Moves later entries to the gap if they belong there, so that a search never ends too early.
void Memory::erase(std::uint32_t key) noexcept {
  const std::size_t mask = table_.size() - 1;
  std::size_t gap = key & mask;
  while (table_[gap].key != key) gap = (gap + 1) & mask;
  for (std::size_t at = (gap + 1) & mask; table_[at].key != 0; at = (at + 1) & mask) {
    const std::size_t home = table_[at].key & mask;
    if (((at - home) & mask) < ((at - gap) & mask)) continue;
    table_[gap] = table_[at];
    gap = at;
  }
  table_[gap] = {};
}

void Memory::grow_table() {
  std::vector<Entry> larger(table_.size() * 2);
  larger.swap(table_);
  for (const Entry& entry : larger) {
    if (entry.key != 0) insert(entry.key, entry.slot);
  }
}

void Memory::give_key(RemoteKeyId id) {
  if ((alive_ + 1) * 2 > table_.size()) grow_table();
  std::uint32_t key = sequence_.next();
  // After the sequence has wrapped around, a key may still be in use.
  while (find(key) != kNoRemoteKey) key = sequence_.next();
  insert(key, id);
  ++alive_;
  slots_[id].key = key;
}

void Memory::kill(RemoteKeyId id) noexcept {
  const std::uint32_t key = std::exchange(slots_[id].key, 0);
  if (key == 0) return;
  erase(key);
  --alive_;
  died_(key);
}

Result<RemoteKey> Memory::make_key(Scope scope, ConKey owner, RegionId region, std::size_t offset,
                                   std::size_t length) {
  const std::span<std::byte> memory = regions_[region];
  if (offset > memory.size() || length == 0 || length > memory.size() - offset)
    return tl::unexpected(Errc::invalid);
  if (free_slots_.empty()) {
    if (free_slots_.capacity() == slots_.size()) free_slots_.reserve(2 * slots_.size() + 1);
    slots_.emplace_back();
    free_slots_.push_back(static_cast<RemoteKeyId>(slots_.size() - 1));
  }
  const RemoteKeyId id = free_slots_.back();
  give_key(id);
  free_slots_.pop_back();
  Slot& slot = slots_[id];
  slot.used = true;
  ++keys_of_[region];
  slot.scope = scope;
  slot.region = region;
  slot.owner = owner;
  slot.bytes = memory.subspan(offset, length);
  return RemoteKey{.id = id, .rkey = slot.key, .remote_addr = 0};
}

void Memory::release_key(RemoteKeyId id) {
  RTRS_ASSERT(id < slots_.size() && slots_[id].used);
  kill(id);
  --keys_of_[slots_[id].region];
  slots_[id] = Slot{};
  free_slots_.push_back(id);
}

bool Memory::invalidate(RemoteKeyId id) noexcept {
  if (id >= slots_.size() || !slots_[id].used) return false;
  kill(id);
  return true;
}

Result<std::uint32_t> Memory::rebind(RemoteKeyId id, ConKey owner) {
  if (id >= slots_.size() || !slots_[id].used) return tl::unexpected(Errc::invalid);
  kill(id);
  give_key(id);
  slots_[id].owner = owner;
  return slots_[id].key;
}

iwarp::Fault Memory::resolve(ConKey from, std::uint32_t key, std::uint64_t to, std::size_t n,
                             iwarp::MutableBytes& place) const noexcept {
  const RemoteKeyId id = find(key);
  if (id == kNoRemoteKey) return iwarp::Fault::unknown_key;
  const Slot& slot = slots_[id];
  const bool good = slot.scope == Scope::any ||
                    (slot.scope == Scope::path ? slot.owner.place() == from.place() : slot.owner == from);
  if (!good) return iwarp::Fault::foreign_key;
  const iwarp::Fault fault = iwarp::judge_range(to, n, 0, slot.bytes.size());
  if (fault == iwarp::Fault::none) place = slot.bytes.subspan(static_cast<std::size_t>(to), n);
  return fault;
}

iwarp::Fault Memory::invalidate_by_peer(ConKey from, std::uint32_t key) noexcept {
  const RemoteKeyId id = find(key);
  if (id == kNoRemoteKey || slots_[id].scope != Scope::connection || !(slots_[id].owner == from))
    return iwarp::Fault::bad_invalidation;
  kill(id);
  return iwarp::Fault::none;
}

}  // namespace rtrs::tcp
