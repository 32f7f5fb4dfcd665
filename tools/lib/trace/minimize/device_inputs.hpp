// Recorded inputs and actions of the RNBD device state machines. Types that contain a name or a long message
// are boxed to keep the variant small, because they are rare.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/proto/actions.hpp"
#include "core/record/kinds.hpp"

namespace rtrs::tools {

// A value on the heap, with value semantics.
template <class T>
class Boxed {
 public:
  Boxed() : value_(std::make_unique<T>()) {}
  Boxed(const T& value) : value_(std::make_unique<T>(value)) {}
  Boxed(const Boxed& other) : value_(std::make_unique<T>(*other.value_)) {}
  Boxed& operator=(const Boxed& other) {
    *value_ = *other.value_;
    return *this;
  }
  ~Boxed() = default;
  T& operator*() noexcept { return *value_; }
  const T& operator*() const noexcept { return *value_; }

 private:
  std::unique_ptr<T> value_;  // never null
};

// The event type of an alternative of a variant, without Boxed.
template <class T>
struct EventOf {
  using Type = T;
};
template <class T>
struct EventOf<Boxed<T>> {
  using Type = T;
};
template <class T>
auto& unboxed(T& value) noexcept {
  if constexpr (std::is_same_v<typename EventOf<std::remove_const_t<T>>::Type, std::remove_const_t<T>>)
    return value;
  else
    return *value;
}
// Visits the event of any input or action variant of sessions and devices, unboxed.
template <class Visit, class Variant>
decltype(auto) visit_event(Visit&& visit, Variant& variant) {
  return visit_action([&visit](auto& one) -> decltype(auto) { return visit(unboxed(one)); }, variant);
}
// Returns the event, or nullptr if the variant has another type.
template <class Event, class Variant>
const Event* event_if(const Variant& variant) {
  return visit_event(
      [](const auto& one) -> const Event* {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(one)>, Event>) return &one;
        return nullptr;
      },
      variant);
}

using ClientDevicesInput =
    std::variant<trace::LinkUp, trace::LinkDown, Boxed<trace::MapRequested>, trace::UnmapRequested,
                 trace::RemapRequested, trace::ResizeRequested, trace::MessageDone, trace::IoBegun,
                 trace::IoDone, trace::RetryDue, trace::ReopenDue>;
using ClientDevicesAction =
    std::variant<Boxed<trace::SendMessage>, trace::DeviceChanged, trace::CacheReplaced, trace::MapAnswered,
                 trace::IoStarted, trace::IoJudged>;
using ServerDevicesInput = std::variant<trace::DeviceRequest, Boxed<trace::LongDeviceRequest>,
                                        trace::ExportOpened, trace::ExportMeasured, trace::StorageDone,
                                        trace::SyncFailed, trace::DeviceForceClosed, trace::SessionClosed>;
using ServerDevicesAction =
    std::variant<trace::Storage, trace::Respond, trace::WriteBack, Boxed<trace::OpenExport>,
                 trace::CloseExport, trace::MeasureExport, trace::CacheDamaged, trace::SessionDrained>;

}  // namespace rtrs::tools
