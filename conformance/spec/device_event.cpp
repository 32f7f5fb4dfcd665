#include "conformance/spec/device_event.hpp"

namespace rtrs::spec {

std::string_view name_of(DeviceKind kind) noexcept {
  constexpr std::string_view kNames[] = {
#define RTRS_SPEC_EVENT(name, event_class) #name,
      RTRS_SPEC_DEVICE_EVENTS(RTRS_SPEC_EVENT)
#undef RTRS_SPEC_EVENT
  };
  return kNames[static_cast<unsigned>(kind)];
}

EventClass class_of(DeviceKind kind) noexcept {
  constexpr EventClass kClasses[] = {
#define RTRS_SPEC_EVENT(name, event_class) EventClass::event_class,
      RTRS_SPEC_DEVICE_EVENTS(RTRS_SPEC_EVENT)
#undef RTRS_SPEC_EVENT
  };
  return kClasses[static_cast<unsigned>(kind)];
}

std::string_view name_of(Opcode opcode) noexcept {
  constexpr std::string_view kNames[] = {"read", "write", "flush", "discard", "secure_erase", "write_zeroes"};
  return kNames[static_cast<unsigned>(opcode)];
}

std::string_view name_of(DeviceState state) noexcept {
  constexpr std::string_view kNames[] = {"init", "open", "closed", "unmapping", "unmapped"};
  return kNames[static_cast<unsigned>(state)];
}

std::string_view name_of(Disposition disposition) noexcept {
  constexpr std::string_view kNames[] = {"ok", "retry_after_remap", "fail", "lost"};
  return kNames[static_cast<unsigned>(disposition)];
}

}  // namespace rtrs::spec
