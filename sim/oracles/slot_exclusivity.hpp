// O2: a shadow of the server's chunk memory. From the moment a request is handed to storage until it is
// answered, its bytes have no other user on any path, and they hold what was handed over (write) or filled in
// (read).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class SlotExclusivity {
 public:
  explicit SlotExclusivity(Judge& judge) : judge_(judge) {}
  void begin(std::span<const std::byte> bytes, std::uint32_t io, Nanos now);
  // The user wrote into its own bytes (a read was filled).
  void filled(std::span<const std::byte> bytes);
  // The bytes are still those of begin() or filled().
  void check(std::span<const std::byte> bytes, std::uint32_t io, Nanos now);
  void end(std::span<const std::byte> bytes);
  // The memory is gone with its process.
  void clear() { users_.clear(); }

 private:
  struct User {
    std::span<const std::byte> bytes;
    std::uint32_t io = 0;
    std::uint64_t digest = 0;
  };
  User* find(std::span<const std::byte> bytes);
  Judge& judge_;
  std::vector<User> users_;
};

}  // namespace rtrs::sim
