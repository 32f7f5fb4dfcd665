// Memory of nodes, and the keys for remote writes to that memory.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "core/base/assert.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {
namespace {

constexpr std::size_t kMaxKeys = 1u << 16;

template <class Container>
std::uint32_t unused_slot(Container& slots) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].used) return static_cast<std::uint32_t>(i);
  }
  slots.emplace_back();
  return static_cast<std::uint32_t>(slots.size() - 1);
}

}  // namespace

Region Network::allocate(NodeId node_id, std::size_t bytes) {
  Node& node = nodes_[node_id];
  const RegionId id = unused_slot(node.memory);
  Memory& memory = node.memory[id];
  memory = Memory{};
  memory.used = true;
  memory.owned.assign(bytes, std::byte{0});
  return Region{id, memory.owned};
}

Region Network::register_memory(NodeId node_id, std::span<std::byte> bytes) {
  Node& node = nodes_[node_id];
  const RegionId id = unused_slot(node.memory);
  Memory& memory = node.memory[id];
  memory = Memory{};
  memory.used = true;
  memory.external = true;
  memory.external_bytes = bytes;
  return Region{id, bytes};
}

void Network::release(NodeId node_id, RegionId id) {
  Node& node = nodes_[node_id];
  if (id >= node.memory.size()) return;
  for (RemoteKeyId key = 0; key < node.keys.size(); ++key) {
    if (node.keys[key].used && node.keys[key].region == id) release_key(node_id, key);
  }
  node.memory[id] = Memory{};
}

std::span<std::byte> Network::memory_of(NodeId node_id, RegionId id) noexcept {
  Memory& memory = nodes_[node_id].memory[id];
  return memory.external ? memory.external_bytes : std::span<std::byte>(memory.owned);
}

RemoteKey Network::make_key(NodeId node_id, RegionId region, std::size_t offset, std::size_t length) {
  Node& node = nodes_[node_id];
  RTRS_ASSERT(region < node.memory.size() && node.memory[region].used);
  const std::size_t size = memory_of(node_id, region).size();
  RTRS_ASSERT(offset <= size && length <= size - offset);
  RemoteKeyId id = kNoRemoteKey;
  if (node.free_keys.empty()) {
    id = static_cast<RemoteKeyId>(node.keys.size());
    RTRS_ASSERT(id < kMaxKeys);
    // Keys from before a node restart are not valid after it.
    node.keys.emplace_back().generation = static_cast<std::uint16_t>(node.starts * 0x1357u);
  } else {
    id = node.free_keys.back();
    node.free_keys.pop_back();
  }
  Key& key = node.keys[id];
  key.used = true;
  key.region = region;
  key.offset = static_cast<std::uint32_t>(offset);
  key.length = static_cast<std::uint32_t>(length);
  key.address = (std::uint64_t{node.starts} << 52) + ((std::uint64_t{region} + 1) << 32) + offset;
  RemoteKey remote_key;
  remote_key.id = id;
  remote_key.rkey = fresh_key(node_id, id);
  remote_key.remote_addr = key.address;
  return remote_key;
}

std::uint32_t Network::fresh_key(NodeId node_id, RemoteKeyId id) {
  Key& key = nodes_[node_id].keys[id];
  ++key.generation;
  key.rkey = std::uint32_t{key.generation} << 16 | id;
  key.valid = true;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::key_granted;
  h.node = node_id;
  h.rkey = key.rkey;
  h.value = key.address;
  h.length = key.length;
  happened(h);
  return key.rkey;
}

void Network::revoke(NodeId node_id, RemoteKeyId id) {
  Key& key = nodes_[node_id].keys[id];
  if (!key.valid) return;
  key.valid = false;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::key_revoked;
  h.node = node_id;
  h.rkey = key.rkey;
  happened(h);
}

void Network::release_key(NodeId node_id, RemoteKeyId id) {
  Node& node = nodes_[node_id];
  if (id >= node.keys.size() || !node.keys[id].used) return;
  revoke(node_id, id);
  node.keys[id].used = false;
  node.free_keys.push_back(id);
}

std::uint32_t Network::rebind(NodeId node_id, RemoteKeyId id) {
  RTRS_ASSERT(id < nodes_[node_id].keys.size() && nodes_[node_id].keys[id].used);
  revoke(node_id, id);
  return fresh_key(node_id, id);
}

const Network::Key* Network::find_key(NodeId node_id, const Wr& wr) const noexcept {
  const Node& node = nodes_[node_id];
  const std::uint32_t id = wr.rkey & 0xffff;
  if (id >= node.keys.size()) return nullptr;
  const Key& key = node.keys[id];
  if (!key.used) return nullptr;
  // If an invalidation does not fence writes, a write in progress continues after its key was invalidated.
  const bool in_progress = wr.torn && !config_.capabilities.invalidation_fences;
  if (!in_progress && (!key.valid || key.rkey != wr.rkey)) return nullptr;
  if (wr.remote_addr < key.address) return nullptr;
  const std::uint64_t begin = wr.remote_addr - key.address;
  if (begin > key.length || wr.length > key.length - begin) return nullptr;
  return &key;
}

PayloadId Network::snapshot(NodeId node_id, const Wr& wr) {
  if (wr.payload != kNoPayload || wr.length == 0) return wr.payload;
  const PayloadId id = pool_.take(wr.length);
  gather(node_id, wr, 0, wr.length, pool_[id].data());
  return id;
}

void Network::gather(NodeId node_id, const Wr& wr, std::uint32_t begin, std::uint32_t end, std::byte* to) {
  if (wr.payload != kNoPayload) {
    std::memcpy(to, pool_[wr.payload].data() + begin, end - begin);
    return;
  }
  std::uint32_t at = 0;  // offset of the part in the message
  for (unsigned i = 0; i < wr.part_count; ++i) {
    const LocalPart& part = wr.parts[i];
    const std::uint32_t first = std::max(begin, at);
    const std::uint32_t last = std::min(end, at + part.length);
    if (first < last) {
      const std::span<std::byte> region = memory_of(node_id, part.region);
      RTRS_ASSERT(std::uint64_t{part.offset} + part.length <= region.size() &&
                  "memory of an outstanding write");
      const std::byte* from = region.data() + part.offset + (first - at);
      std::memcpy(to, from, last - first);
      to += last - first;
    }
    at += part.length;
  }
}

void Network::place(QpId responder, QpId requester, std::uint64_t serial, const Wr& wr, std::uint32_t begin,
                    std::uint32_t end, const Key& key) {
  const NodeId node = qps_[responder].node;
  const std::uint64_t offset = key.offset + (wr.remote_addr - key.address) + begin;
  std::byte* to = memory_of(node, key.region).data() + offset;
  gather(qps_[requester].node, wr, begin, end, to);
  stats_.bytes += end - begin;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::placed;
  h.qp = responder;
  h.peer = requester;
  h.node = node;
  h.wr = serial;
  h.rkey = wr.rkey;
  h.value = wr.remote_addr + begin;
  h.length = end - begin;
  h.digest = XXH3_64bits(to, end - begin);
  happened(h);
}

}  // namespace rtrs::sim
