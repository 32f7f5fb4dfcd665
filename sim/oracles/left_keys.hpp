// O10 for a client that is as strict as kernels before 6.12 (protocol section 5.6). In such a client, a READ
// with NEED_INVAL never completes if it is answered before its key was invalidated. A server may leave keys
// valid only if both ends of the path agreed (wire::Extensions::keys_stay).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/fabric/fabric.hpp"

namespace rtrs::sim {

// Watches the fabric of one client. If the client releases a key while its connection is up, the READ of the
// key was answered, so that the peer must have invalidated the key by then.
class LeftKeys {
 public:
  void asked(ConKey key, std::span<const std::byte> con_req);
  void offered(ConKey key, RemoteKeyId id, std::uint32_t rkey) { keys_.push_back({key, id, rkey, false}); }
  void happened(const FabricEvent&);
  void lost(ConKey key);
  void ended(RemoteKeyId id);
  std::uint64_t left() const noexcept { return left_; }

 private:
  struct Key {
    ConKey con;
    RemoteKeyId id;
    std::uint32_t rkey;
    bool excused;  // the key was invalidated, or its connection was lost
  };
  // A path's attempt: whether its first CON_REQ requested the extension, and whether the CON_RSP granted
  // it.
  struct Path {
    bool asked = false;
    bool keys_stay = false;
  };
  Path& path_of(ConKey key);

  std::vector<Key> keys_;
  std::vector<Path> paths_;
  std::uint64_t left_ = 0;
};

}  // namespace rtrs::sim
