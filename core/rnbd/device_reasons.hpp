// Reasons why a mapped device is unusable, and changes found when it was reopened: one table for logs, status
// and the API. `docs/reasons.md` lists it.
#pragma once
#include <cstdint>

#include "core/rnbd/geometry.hpp"

namespace rtrs::rnbd {

enum class DeviceReason : std::uint8_t {
  none,
  // The server refused to open the device, for a temporary reason.
  absent,     // no device of that name
  gone,       // no hardware behind the name
  forbidden,  // no permission, or write protection
  busy,       // in use by another process
  failed,     // storage or memory failed
  // The server refused to open the device, for a permanent reason.
  read_only,
  not_allowed,
  closed_by_operator,
  refused,  // any other errno
  // The device is open, and its geometry has changed.
  block_size_changed,
  shrunk,
  grown,
};
inline constexpr unsigned kDeviceReasonCount = static_cast<unsigned>(DeviceReason::grown) + 1;

struct DeviceReasonText {
  const char* code;           // stable; differs from the codes of all values of rtrs::Reason
  const char* sentence;       // sentence for the end of a line: no initial capital, no full stop
  const char* hint;           // advice what to do, in the same form; empty only for DeviceReason::none
  std::uint16_t linux_errno;  // errno with this meaning; 0: no failure
  // The reason may be temporary, for example if a server restarts before its disk is available. In this case
  // requests wait for queue_timeout.
  bool may_pass;
};

const DeviceReasonText& text_of(DeviceReason) noexcept;
// Returns the reason for an OPEN that the server refused, or whose response is invalid. `peer_errno` 0: no
// errno.
DeviceReason reason_of_refusal(std::uint16_t peer_errno) noexcept;
// Returns the reason if a reopened device has another geometry; none if `before` has no sectors.
DeviceReason reason_of_change(const Geometry& before, const Geometry& now) noexcept;
inline bool may_pass(std::uint16_t peer_errno) noexcept {
  return text_of(reason_of_refusal(peer_errno)).may_pass;
}

}  // namespace rtrs::rnbd
