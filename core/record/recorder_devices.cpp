// Records the actions of device state machines to a file or listener.
#include "core/record/recorder.hpp"

namespace rtrs {

void Recorder::append_devices(InstanceId instance, std::span<const rnbd::ClientAction> list) noexcept {
  for (const rnbd::ClientAction& action : list)
    std::visit([&, this](const auto& one) { this->append_event(instance, trace::recorded(one)); }, action);
}

void Recorder::append_devices(InstanceId instance, std::span<const rnbd::ServerAction> list) noexcept {
  for (const rnbd::ServerAction& action : list)
    std::visit([&, this](const auto& one) { this->append_event(instance, trace::recorded(one)); }, action);
}

}  // namespace rtrs
