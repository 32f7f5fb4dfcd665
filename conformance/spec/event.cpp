#include "conformance/spec/event.hpp"

namespace rtrs::spec {

std::string_view name_of(Kind kind) noexcept {
  static constexpr std::string_view kNames[] = {
#define RTRS_SPEC_EVENT(name, event_class) #name,
      RTRS_SPEC_EVENTS(RTRS_SPEC_EVENT)
#undef RTRS_SPEC_EVENT
  };
  return kNames[static_cast<unsigned>(kind)];
}

std::string_view name_of(PathState state) noexcept {
  static constexpr std::string_view kNames[] = {"unknown",  "absent",  "connecting", "connected",
                                                "draining", "waiting", "closing",    "closed"};
  return kNames[static_cast<unsigned>(state)];
}

std::string_view name_of(WireOp op) noexcept {
  static constexpr std::string_view kNames[] = {"WRITE", "WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM",
                                                "SEND_WITH_INV"};
  return kNames[static_cast<unsigned>(op)];
}

}  // namespace rtrs::spec
