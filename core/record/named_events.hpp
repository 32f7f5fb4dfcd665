// Records of the events that have a name of a device: the name is text, not the bytes of the user or the
// peer. Every other event of the RNBD machines is its own record.
#pragma once
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/record/device_name.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::trace {

// rnbd::OpenExport.
struct OpenExport {
  std::uint64_t request = 0;
  std::uint16_t operation = 0;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  NameText name;
  RTRS_FIELDS(request, operation, mode, name)
};

template <class Event>
const Event& recorded(const Event& event) noexcept {
  return event;
}
inline OpenExport recorded(const rnbd::OpenExport& action) noexcept {
  return {action.request, action.operation, action.mode, name_text(action.name)};
}

}  // namespace rtrs::trace
