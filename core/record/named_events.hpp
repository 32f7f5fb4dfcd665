// Types for events of the RNBD machines that are recorded in another form: a device name becomes text, and
// the result of a step becomes an event of its own.
#pragma once
#include <cstdint>

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
