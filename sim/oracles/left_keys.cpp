#include "sim/oracles/left_keys.hpp"

#include <algorithm>

#include "core/wire/messages.hpp"

namespace rtrs::sim {

LeftKeys::Path& LeftKeys::path_of(ConKey key) {
  if (paths_.size() <= key.place()) paths_.resize(key.place() + 1U);
  return paths_[key.place()];
}

void LeftKeys::asked(ConKey key, std::span<const std::byte> con_req) {
  if (key.con != 0) return;
  const auto request = wire::parse_conn_req(con_req);
  path_of(key) = Path{request && has(request.value.extensions, wire::Extensions::keys_stay), false};
}

void LeftKeys::happened(const FabricEvent& event) {
  if (const auto* connected = std::get_if<event::Connected>(&event)) {
    if (connected->key.con != 0) return;
    const auto response = wire::parse_conn_rsp(connected->private_data);
    Path& path = path_of(connected->key);
    path.keys_stay = path.asked && response && (response.value.flags & wire::kConnRspKeysStay) != 0;
  } else if (const auto* invalidated = std::get_if<event::KeyInvalidated>(&event)) {
    for (Key& key : keys_)
      key.excused = key.excused || (key.con == invalidated->key && key.rkey == invalidated->rkey);
  } else if (const auto* gone = std::get_if<event::ConnectionLost>(&event)) {
    lost(gone->key);
  }
}

void LeftKeys::lost(ConKey con) {
  for (Key& key : keys_) key.excused = key.excused || key.con == con;
}

void LeftKeys::ended(RemoteKeyId id) {
  const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const Key& one) { return one.id == id; });
  if (key == keys_.end()) return;
  if (!key->excused && !path_of(key->con).keys_stay) ++left_;
  keys_.erase(key);
}

}  // namespace rtrs::sim
