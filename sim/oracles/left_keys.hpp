// O10, for a client as strict as the kernel's before 6.12 (protocol section 5.6): a READ with NEED_INVAL that
// is answered before its key was invalidated never completes there. Keys may be left only over a path whose
// two ends agreed on it (wire::Extensions::keys_stay).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/fabric/fabric.hpp"

namespace rtrs::sim {

// Watches the fabric of one client. A key that the client takes back while its connection is up belongs to a
// READ that was answered; so the peer must have invalidated it by then.
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
    bool excused;  // invalidated, or its connection is gone
  };
  // One attempt of a path: what CON_REQ of its first connection asked for and CON_RSP granted.
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
