#include <algorithm>

#include "core/rnbd/client_devices.hpp"

namespace rtrs::rnbd {

const char* ClientDevices::broken_invariant() const noexcept {
  std::uint64_t in_flight = 0;
  bool opens = false;
  bool closes = false;
  bool ends = false;
  for (std::size_t slot = 0; slot < devices_.size(); ++slot) {
    const Device& device = devices_[slot];
    if (device.state > DeviceState::unmapped || device.mode > wire::rnbd::AccessMode::migration)
      return "an invalid state or access mode";
    if (device.uses == 0 || device.uses > kMaxGenerations ||
        device.handle != make_slot_id(static_cast<std::uint32_t>(slot), 0, device.uses - 1))
      return "a handle names its slot and its use";
    if (device.futile_reopens > kMaxFutileReopens) return "futile re-opens of a device are bounded";
    if (std::max(device.open_token, device.close_token) > last_token_) return "tokens count up";
    if (device.state == DeviceState::unmapped && (device.in_flight != 0 || device.close_token != 0))
      return "a dead handle has nothing in flight";
    in_flight += device.in_flight;
    opens = opens || device.open_token != 0;
    closes = closes || device.close_token != 0;
    ends = ends || device.state == DeviceState::unmapping || device.close_due;
  }
  if (reopens_ > kReopenPauseMax || info_token_ > last_token_) return "counters are in their bounds";
  if (in_flight != io_in_flight_) return "the IO in flight is that of all devices";
  if (opens && (in_flight != 0 || closes || info_token_ != 0))
    return "while an OPEN is unanswered, no IO, no CLOSE and no SESS_INFO is";
  if (holding_ != (opens || (link_up_ && (info_token_ != 0 || round_wanted()))))
    return "IO is held exactly while a round is in progress";
  return ending_ == ends ? nullptr : "a device that ends is known to end";
}

}  // namespace rtrs::rnbd
