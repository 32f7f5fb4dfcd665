#include "core/record/live_records.hpp"

#include <array>

#include "core/record/schema.hpp"
#include "core/record/wire_notes.hpp"

namespace rtrs::trace {

namespace {

template <class T>
constexpr std::size_t leaf_count() {
  std::size_t count = 0;
  const T value{};
  visit_leaves(value, [&count](const auto&) { ++count; });
  return count;
}

const EventInfo* event_of(KindId kind) noexcept {
  static const auto table = [] {
    std::array<const EventInfo*, kKindLimit> all{};
    for (const EventInfo& event : builtin_schema().events) all[event.id] = &event;
    return all;
  }();
  return table[kind];
}

template <class Field>
Value value_of(const Field& field) noexcept {
  if constexpr (std::is_same_v<Field, wire::Uuid>)
    return {0, {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()}};
  else if constexpr (std::is_same_v<Field, wire::Bytes>)
    return {0, {reinterpret_cast<const char*>(field.data()), field.size()}};
  else if constexpr (IsInlineBlob<Field>)
    return {0, field.view()};
  else if constexpr (std::is_integral_v<Field> && std::is_signed_v<Field>)
    return {static_cast<std::uint64_t>(static_cast<std::int64_t>(field)), {}};
  else
    return {static_cast<std::uint64_t>(field), {}};
}

}  // namespace

template <class T>
void LiveRecords::tell(InstanceId instance, const T& value) {
  std::array<Value, leaf_count<T>() + 1> values;  // one more, so that the array is never empty
  std::size_t count = 0;
  visit_leaves(value, [&](const auto& field) { values[count++] = value_of(field); });
  if constexpr (Timed<T>) time_ = value.now;
  Record record;
  record.event = event_of(kKindOf<T>);
  record.seq = next_++;
  record.instance = instance;
  record.time = time_;
  record.values = std::span(values).first(count);
  listener_.on(record);
}

void LiveRecords::append(KindId kind, InstanceId instance, const void* value) {
#define RTRS_TRACE_TELL(number, event_class, type) \
  case number:                                     \
    return tell(instance, *static_cast<const type*>(value));
  switch (kind) {
    RTRS_TRACE_EVENTS(RTRS_TRACE_TELL)
    default:
      return;
  }
#undef RTRS_TRACE_TELL
}

template void LiveRecords::tell(InstanceId, const WireSent&);
template void LiveRecords::tell(InstanceId, const WireReceived&);
template void LiveRecords::tell(InstanceId, const WireCm&);

}  // namespace rtrs::trace
