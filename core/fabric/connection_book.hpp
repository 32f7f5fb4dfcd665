// The connections of a fabric, by key.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "core/base/assert.hpp"
#include "core/proto/ids.hpp"

namespace rtrs {

struct ConKeyHash {
  std::size_t operator()(const ConKey& key) const noexcept {
    const std::uint64_t packed = std::uint64_t{key.epoch} << 32 | std::uint64_t{key.number()} << 16 | key.con;
    return static_cast<std::size_t>(packed * 0x9e3779b97f4a7c15u);
  }
};

// Owns the connections, which must have a member key(). The address of a connection never changes.
template <class Connection>
class ConnectionBook {
 public:
  // Returns nullptr if there is no such connection. Fast for the same key as in the previous call, which is
  // common for consecutive work requests.
  Connection* find(const ConKey& key) const noexcept {
    return last_found_ != nullptr && last_found_->key() == key ? last_found_ : look_up(key);
  }
  // Result of the last successful find(); nullptr if that connection was removed.
  Connection* last_found() const noexcept { return last_found_; }

  // Adds a connection. Adding a key twice is a programming error.
  Connection& add(std::unique_ptr<Connection> connection) {
    const auto [place, fresh] = connections_.emplace(connection->key(), std::move(connection));
    RTRS_ASSERT(fresh);
    return *place->second;
  }
  // Returns nullptr if there is no such connection.
  std::unique_ptr<Connection> remove(const ConKey& key) noexcept {
    auto node = connections_.extract(key);
    if (node.empty()) return nullptr;
    if (last_found_ == node.mapped().get()) last_found_ = nullptr;
    return std::move(node.mapped());
  }
  void clear() noexcept {
    last_found_ = nullptr;
    connections_.clear();
  }

  std::size_t size() const noexcept { return connections_.size(); }
  // Iterates over pairs of key and std::unique_ptr, in no particular order.
  auto begin() const noexcept { return connections_.begin(); }
  auto end() const noexcept { return connections_.end(); }

 private:
  Connection* look_up(const ConKey& key) const noexcept {
    const auto found = connections_.find(key);
    if (found == connections_.end()) return nullptr;
    last_found_ = found->second.get();
    return last_found_;
  }

  std::unordered_map<ConKey, std::unique_ptr<Connection>, ConKeyHash> connections_;
  mutable Connection* last_found_ = nullptr;
};

}  // namespace rtrs
