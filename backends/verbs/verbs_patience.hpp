// How long hardware tries to get a packet through before it breaks a connection.
#pragma once
#include <cstdint>
#include <string>

#include "core/proto/ids.hpp"

namespace rtrs::verbs {

// As far as their timers differ.
enum class TimerKind : std::uint8_t {
  exact,     // soft-RoCE, whose seven retries never end
  mlx4,      // ConnectX-3 and older
  mlx5,      // ConnectX-4 and newer
  standard,  // as InfiniBand says, without a minimum
};
TimerKind timer_kind(std::uint32_t vendor, std::uint32_t part) noexcept;

// Of a queue pair, as InfiniBand encodes them.
struct Retries {
  std::uint8_t timeout = 0;  // 4.096 us x 2^timeout; 0: for ever
  std::uint8_t count = 0;
  bool operator==(const Retries&) const = default;
};

// From the first try of a packet whose peer is gone to the loss of its connection.
struct Patience {
  Nanos least = 0;
  Nanos most = 0;
};
Patience patience(TimerKind, Retries) noexcept;

// The greatest timeout by which the connection is lost within this time; 0: none is that short.
std::uint8_t greatest_timeout(TimerKind, std::uint8_t count, Nanos within) noexcept;

// "3.8 s"
std::string seconds_text(Nanos);

}  // namespace rtrs::verbs
