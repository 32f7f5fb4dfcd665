// Renumbers the identifiers of a world whose values do not matter, only their identity or order. The new
// numbers do not depend on the steps that led to the world.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/fixed_vector.hpp"
#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// Returns the index of the client path to which the server path is connected.
inline unsigned path_of(const ServerPath& path) {
  return path.uuid.bytes[0] - 1U;
}
// True if the message carries the number of an attempt.
inline bool is_attempt(const sim::MachineWorld::Message& message) {
  using Kind = sim::MachineWorld::Message::Kind;
  return message.kind == Kind::connect || message.kind == Kind::fence_req;
}

inline constexpr unsigned kMostPaths = 4;
// For each path, the attempts that some state machine still remembers.
using Epochs = std::array<FixedVector<std::uint16_t, 32>, kMostPaths>;

// New numbers for one world, which must outlive this object and not change.
class Renaming {
 public:
  using Connection = sim::MachineWorld::Connection;

  explicit Renaming(const sim::MachineWorld&);

  // Number of connections. connection(i) returns them in the order of path, attempt and cid.
  std::size_t connections() const noexcept { return connections_; }
  const Connection& connection(std::size_t i) const noexcept { return *order_[i]; }
  // Returns the new number of the connection with the server's identifier `id`: its position in the order of
  // connection(), counted from 1. Connections that no longer exist get the next numbers, in the order of the
  // calls. 0 stays 0.
  std::uint32_t name_of(std::uint32_t id);
  // Number of newer attempts of the path that some state machine still remembers.
  std::size_t age(unsigned path, std::uint32_t epoch) const;
  // Age of a fence serial: the number of fences that followed.
  std::uint32_t serial(std::uint32_t number) const noexcept { return next_serial_ - number; }
  // Age of a generation: the number of later uses of the permit. Returns `value` unchanged if the peers did
  // not agree on generations.
  std::uint8_t generation(std::uint16_t permit, std::uint8_t value) const noexcept;
  bool tagged() const noexcept { return tagged_; }
  const Epochs& epochs() const noexcept { return epochs_; }

 private:
  void name_connections(const std::vector<Connection>&);
  void remember(unsigned path, std::uint32_t epoch);
  void remember_client();
  void remember(const std::vector<Connection>&);
  void remember(const ServerSession&);

  static constexpr std::size_t kMostNames = 48;

  const sim::MachineWorld& world_;
  const ClientSession& client_;
  const bool tagged_;
  std::uint32_t next_serial_ = 0;
  Epochs epochs_;
  std::array<const Connection*, kMostNames> order_;
  std::array<std::uint32_t, kMostNames> names_;
  std::size_t named_ = 0;
  std::size_t connections_ = 0;
};

}  // namespace rtrs::explore
