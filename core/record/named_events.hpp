// Types for events of the RNBD state machines that are recorded in another form: a borrowed header is copied,
// a device name becomes text, and the result of a step becomes a separate event.
#pragma once
#include <cstdint>

#include "core/base/inline_blob.hpp"
#include "core/base/reflect.hpp"
#include "core/record/device_name.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::trace {

struct MapRequested {
  Nanos now = 0;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  NameText name;
  RTRS_FIELDS(now, mode, name)
};
// A request with a header of at most `HeaderBytes` bytes; a longer one is truncated.
template <std::size_t HeaderBytes>
struct RequestWith {
  std::uint64_t request = 0;
  std::uint32_t data_len = 0;
  Direction direction = Direction::read;
  InlineBytes<HeaderBytes> header{};
  Nanos now = 0;
  RTRS_FIELDS(now, request, data_len, direction, header)
  static RequestWith of(const rnbd::DeviceRequest& input) noexcept {
    return {input.request, input.data_len, input.direction, input.header, input.now};
  }
  operator rnbd::DeviceRequest() const noexcept { return {request, data_len, direction, header.span(), now}; }
};
using DeviceRequest = RequestWith<wire::rnbd::kIoBytes>;  // long enough for every IO header
static_assert(sizeof(DeviceRequest) == 56, "fits a slot of the recorder's ring");
using LongDeviceRequest = RequestWith<wire::rnbd::kOpenBytes>;  // long enough for every message
struct OpenExport {
  std::uint64_t request = 0;
  std::uint16_t operation = 0;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  NameText name;
  RTRS_FIELDS(request, operation, mode, name)
};

// Result of IoDone.
struct IoJudged {
  rnbd::Disposition disposition = rnbd::Disposition::ok;
  RTRS_FIELDS(disposition)
};

template <class Event>
const Event& recorded(const Event& event) noexcept {
  return event;
}
inline MapRequested recorded(const rnbd::MapRequested& input) noexcept {
  return {input.now, input.mode, name_text(input.name)};
}
inline IoJudged recorded(const rnbd::Disposition& disposition) noexcept {
  return {disposition};
}
inline OpenExport recorded(const rnbd::OpenExport& action) noexcept {
  return {action.request, action.operation, action.mode, name_text(action.name)};
}

}  // namespace rtrs::trace
