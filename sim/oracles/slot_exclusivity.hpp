// O2: a shadow of the server's chunk memory. From its delivery to storage until its response, a request is
// the only user of its bytes on all paths, and the bytes hold what was delivered (write) or read (read).
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
  // Called when storage has filled the buffer of a read, which is a legal change of the bytes.
  void filled(std::span<const std::byte> bytes);
  // Checks that the bytes have not changed since begin() or filled().
  void check(std::span<const std::byte> bytes, std::uint32_t io, Nanos now);
  void end(std::span<const std::byte> bytes);
  // Called when the process has ended, and its memory no longer exists.
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
