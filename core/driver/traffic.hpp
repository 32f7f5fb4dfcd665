// Traffic of a path, counted like Linux's stats/rdma (protocol section 8): a request counts when it is posted
// (client) or passed to the upper layer (server), with the bytes of its data and user header. A request that
// is resent over another path counts there too.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/direction.hpp"

namespace rtrs {

class Traffic {
 public:
  std::uint64_t reads() const noexcept { return requests_[index(Direction::read)]; }
  std::uint64_t writes() const noexcept { return requests_[index(Direction::write)]; }
  std::uint64_t read_bytes() const noexcept { return bytes_[index(Direction::read)]; }
  std::uint64_t write_bytes() const noexcept { return bytes_[index(Direction::write)]; }
  void add(Direction direction, std::uint64_t length) noexcept {
    ++requests_[index(direction)];
    bytes_[index(direction)] += length;
  }
  bool operator==(const Traffic&) const = default;

 private:
  static constexpr std::size_t index(Direction direction) noexcept {
    return static_cast<std::size_t>(direction);
  }
  std::array<std::uint64_t, 2> requests_{};
  std::array<std::uint64_t, 2> bytes_{};
};

}  // namespace rtrs
