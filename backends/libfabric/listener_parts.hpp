// Functions shared by all listeners.
#pragma once
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "backends/platform/address/socket_address.hpp"

namespace rtrs::ofi {

inline std::uint64_t now_ms() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since_start).count());
}

inline void raise_event(int event_fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_fd, &one, sizeof one);
}

// Replaces `target` with a malloc() copy of `address`, which libfabric will free. False if out of memory.
inline bool set_address(void*& target, std::size_t& length, const net::SocketAddress& address) {
  void* copy = std::malloc(address.length);
  if (copy == nullptr) return false;
  std::memcpy(copy, &address.storage, address.length);
  std::free(target);
  target = copy;
  length = address.length;
  return true;
}

}  // namespace rtrs::ofi
