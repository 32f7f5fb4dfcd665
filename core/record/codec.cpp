#include "core/record/codec.hpp"

#include "core/record/format.hpp"

namespace rtrs::trace {
namespace {

template <class T>
constexpr std::size_t most_bytes() {
  std::size_t size = 3 + 3 + kMaxVarint;
  const T value{};
  visit_leaves(value, [&size](const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (IsInlineBlob<Field>)
      size += 2 + Field::kCapacity;
    else
      size += std::is_same_v<Field, wire::Uuid> ? 16 : kMaxVarint;
  });
  return size;
}
#define RTRS_TRACE_CHECK(number, event_class, type) \
  static_assert(number < kKindLimit && most_bytes<type>() <= kMaxBuiltinRecord);
RTRS_TRACE_EVENTS(RTRS_TRACE_CHECK)
RTRS_TRACE_LONG(RTRS_TRACE_CHECK)
#undef RTRS_TRACE_CHECK

bool fits(const FieldInfo& field, std::uint64_t number) noexcept {
  if (field.type == FieldType::boolean) return number <= 1;
  const unsigned bits = field.width * 8U;
  if (bits >= 64) return true;
  if (field.type != FieldType::signed_number) return number >> bits == 0;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  return number + sign < sign * 2;
}

bool is_blob(FieldType type) noexcept {
  return type == FieldType::bytes || type == FieldType::text;
}

}  // namespace

std::uint8_t* put_record(std::uint8_t* out, KindId kind, InstanceId instance, const void* value,
                         Nanos& last) noexcept {
  // The value is copied into an object of its type, because it may be in a ring slot, which is raw memory.
#define RTRS_TRACE_PUT(number, event_class, type)               \
  case number: {                                                \
    type copy;                                                  \
    std::memcpy(static_cast<void*>(&copy), value, sizeof copy); \
    return put_record(out, instance, copy, last);               \
  }
  switch (kind) {
    RTRS_TRACE_EVENTS(RTRS_TRACE_PUT)
    default:
      return nullptr;
  }
#undef RTRS_TRACE_PUT
}

std::uint8_t* put_fields(std::uint8_t* out, const Record& record, const FieldMap& map) noexcept {
#define RTRS_TRACE_PUT(number, event_class, type) \
  case number:                                    \
    return put_fields(out, get_struct<type>(record, map));
  switch (record.event->id) {
    RTRS_TRACE_EVENTS(RTRS_TRACE_PUT)
    default:
      return out;
  }
#undef RTRS_TRACE_PUT
}

bool put_values(std::string& out, const EventInfo& event, std::span<const Value> values) {
  if (values.size() != event.fields.size()) return false;
  std::uint8_t number[kMaxVarint];
  const auto add = [&out, &number](std::uint64_t value) {
    out.append(reinterpret_cast<const char*>(number), put_varint(number, value) - number);
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const FieldInfo& field = event.fields[i];
    const Value& value = values[i];
    if (field.type == FieldType::uuid) {
      if (value.bytes.size() != 16) return false;
      out += value.bytes;
    } else if (is_blob(field.type)) {
      if (field.type == FieldType::text && !is_utf8(value.bytes)) return false;
      add(value.bytes.size());
      out += value.bytes;
    } else {
      if (!fits(field, value.number)) return false;
      add(field.type == FieldType::signed_number ? zigzag(static_cast<std::int64_t>(value.number))
                                                 : value.number);
    }
  }
  return true;
}

const std::uint8_t* get_values(const std::uint8_t* at, const std::uint8_t* end, const EventInfo& event,
                               Value* values) noexcept {
  for (const FieldInfo& field : event.fields) {
    Value& value = *values++;
    std::uint64_t number = 16;
    if (field.type != FieldType::uuid) {
      at = get_varint(at, end, number);
      if (at == nullptr) return nullptr;
    }
    if (field.type == FieldType::uuid || is_blob(field.type)) {
      if (number > static_cast<std::size_t>(end - at)) return nullptr;
      value.bytes = {reinterpret_cast<const char*>(at), static_cast<std::size_t>(number)};
      at += number;
      if (field.type == FieldType::text && !is_utf8(value.bytes)) return nullptr;
    } else {
      value.number =
          field.type == FieldType::signed_number ? static_cast<std::uint64_t>(unzigzag(number)) : number;
      if (!fits(field, value.number)) return nullptr;
    }
  }
  return at;
}

Compatibility::Compatibility(const Schema& file) {
  for (const EventInfo& ours : builtin_schema().events) {
    Entry& entry = entries_[ours.id];
    const EventInfo* theirs = file.find(ours.id);
    if (theirs == nullptr) {
      entry.problem = "the trace does not describe the event";
      continue;
    }
    entry.problem.clear();
    if (theirs->name != ours.name || theirs->category != ours.category) {
      entry.problem = "this version has another event under the same number";
    }
    std::size_t found = 0;
    for (const FieldInfo& field : ours.fields) {
      int at = -1;
      for (std::size_t i = 0; i < theirs->fields.size(); ++i) {
        const FieldInfo& other = theirs->fields[i];
        if (other.name != field.name) continue;
        // A number that was narrower in an older version has the same encoding.
        const bool fits = other.width == field.width ||
                          (field.type == FieldType::unsigned_number && other.width < field.width);
        if (other.type != field.type || !fits) {
          entry.problem = "this version has another type for field " + field.name;
        }
        at = static_cast<int>(i);
        ++found;
      }
      entry.map.push_back(at);
    }
    if (found != theirs->fields.size() && entry.problem.empty()) {
      entry.problem = "this version does not know all fields of the event";
    }
    entry.same = entry.problem.empty() && found == ours.fields.size();
    for (std::size_t i = 0; i < entry.map.size(); ++i) entry.same &= entry.map[i] == static_cast<int>(i);
  }
}

const char* Compatibility::problem(KindId kind) const noexcept {
  if (kind >= kKindLimit) return "this version does not know the event";
  return entries_[kind].problem.empty() ? nullptr : entries_[kind].problem.c_str();
}

bool Compatibility::same(KindId kind) const noexcept {
  return kind < kKindLimit && entries_[kind].same;
}

}  // namespace rtrs::trace
