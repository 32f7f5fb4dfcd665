// Time for which hardware retransmits a packet before it breaks the connection.
#pragma once
#include <cstdint>
#include <string>

#include "core/proto/ids.hpp"

namespace rtrs::verbs {

// Timer behaviour of device families.
enum class TimerKind : std::uint8_t {
  exact,     // soft-RoCE; retry count 7 is infinite
  mlx4,      // ConnectX-3 and older
  mlx5,      // ConnectX-4 and newer
  standard,  // as specified by InfiniBand, without a minimum
};
TimerKind timer_kind(std::uint32_t vendor, std::uint32_t part) noexcept;

// Settings of a queue pair in InfiniBand encoding.
struct Retries {
  std::uint8_t timeout = 0;  // 4.096 us x 2^timeout; 0: infinite
  std::uint8_t count = 0;
  bool operator==(const Retries&) const = default;
};

// Time from the first transmission of a packet to a dead peer until the connection is lost.
struct Patience {
  Nanos least = 0;
  Nanos most = 0;
};
Patience patience(TimerKind, Retries) noexcept;

// Returns the greatest timeout setting with which a connection to a dead peer is lost within this time; 0 if
// there is none.
std::uint8_t max_timeout_within(TimerKind, std::uint8_t count, Nanos within) noexcept;

// Returns for example "3.8 s".
std::string seconds_text(Nanos);

}  // namespace rtrs::verbs
