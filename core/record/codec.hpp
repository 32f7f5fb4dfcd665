// Encoding of records as bytes: varint event number, varint instance, zigzag varint time since the previous
// record, fields.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/record/fields.hpp"
#include "core/record/schema.hpp"
#include "core/record/varint.hpp"

namespace rtrs::trace {

// One field. Numbers, booleans and enumerations: `number`, signed ones as two's complement of 64 bits. Uuids,
// bytes and texts: `bytes`, borrowed from the record.
struct Value {
  std::uint64_t number = 0;
  std::string_view bytes;
};

// One record as read. Everything in it is borrowed and valid until the next record is read.
struct Record {
  const EventInfo* event = nullptr;
  std::uint64_t seq = 0;  // number of the record in the file, from 0
  InstanceId instance = 0;
  Nanos time = 0;
  std::span<const Value> values;  // one per field of `event`
  std::string_view fields;        // the same values, encoded
  std::uint64_t offset = 0;       // offset of the record in the file, in bytes
};

// Maximum size of a record of this build, without the bytes in notes.
inline constexpr std::size_t kMaxBuiltinRecord = 1280;

// Encodes a record. `out` has room for kMaxBuiltinRecord bytes plus the bytes of a note; returns the end.
template <class T>
std::uint8_t* put_fields(std::uint8_t* out, const T& value) noexcept {
  visit_leaves(value, [&out](const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, wire::Uuid>) {
      std::memcpy(out, field.bytes.data(), field.bytes.size());
      out += field.bytes.size();
    } else if constexpr (std::is_same_v<Field, wire::Bytes>) {
      out = put_varint(out, field.size());
      if (!field.empty()) std::memcpy(out, field.data(), field.size());
      out += field.size();
    } else if constexpr (IsInlineBlob<Field>) {
      out = put_varint(out, field.size());
      std::memcpy(out, field.units.data(), field.size());
      out += field.size();
    } else if constexpr (std::is_integral_v<Field> && std::is_signed_v<Field>) {
      out = put_varint(out, zigzag(field));
    } else {
      out = put_varint(out, static_cast<std::uint64_t>(field));
    }
  });
  return out;
}

inline std::uint8_t* put_record_head(std::uint8_t* out, KindId kind, InstanceId instance, Nanos time,
                                     Nanos before) noexcept {
  out = put_varint(out, kind);
  out = put_varint(out, instance);
  return put_varint(out, zigzag(static_cast<std::int64_t>(time - before)));
}

template <class T>
std::uint8_t* put_record(std::uint8_t* out, InstanceId instance, const T& value, Nanos& last) noexcept {
  Nanos time = last;
  if constexpr (Timed<T>) time = value.now;
  out = put_record_head(out, kKindOf<T>, instance, time, last);
  last = time;
  return put_fields(out, value);
}

// Like put_fields(), for a value of built-in kind `kind` at address `value`; null for an unknown kind.
std::uint8_t* put_record(std::uint8_t* out, KindId kind, InstanceId instance, const void* value,
                         Nanos& last) noexcept;

// Encodes any event by its description. Returns false if a value does not fit its field.
bool put_values(std::string& out, const EventInfo& event, std::span<const Value> values);
// Decodes the fields of one record; returns the end, or null if they are malformed. `values` has room for
// all.
const std::uint8_t* get_values(const std::uint8_t* at, const std::uint8_t* end, const EventInfo& event,
                               Value* values) noexcept;

// Maps each field of a built-in event to its index in the same event of a file; -1 if the file is older and
// lacks the field.
using FieldMap = std::vector<int>;

// Value of a field that the file does not contain: the default, or the behaviour of older versions.
template <class T>
T default_for_older_version() noexcept {
  if constexpr (requires { T::of_older_version(); }) return T::of_older_version();
  return T{};
}

template <class T>
T get_struct(const Record& record, const FieldMap& map) noexcept {
  T value = default_for_older_version<T>();
  if constexpr (Timed<T>) value.now = record.time;
  std::size_t index = 0;
  visit_leaves(value, [&](auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    const int at = map[index++];
    if (at < 0) return;
    const Value& from = record.values[static_cast<std::size_t>(at)];
    if constexpr (std::is_same_v<Field, wire::Uuid>) {
      std::memcpy(field.bytes.data(), from.bytes.data(), field.bytes.size());
    } else if constexpr (std::is_same_v<Field, wire::Bytes>) {
      field = std::as_bytes(std::span(from.bytes));
    } else if constexpr (IsInlineBlob<Field>) {
      field.assign(from.bytes.data(), from.bytes.size());
    } else {
      field = static_cast<Field>(from.number);
    }
  });
  return value;
}

// Encodes the fields of a record of built-in kind as this build would; `out` has room for kMaxBuiltinRecord.
std::uint8_t* put_fields(std::uint8_t* out, const Record& record, const FieldMap& map) noexcept;

// Compares a file's events with those of this build.
class Compatibility {
 public:
  explicit Compatibility(const Schema& file);
  // Null if values of this kind can be built from the file's records; otherwise the reason why not.
  const char* problem(KindId) const noexcept;
  // True if the fields have the same order and types, so that encoded bytes can be compared.
  bool same(KindId) const noexcept;
  const FieldMap& map(KindId kind) const noexcept { return entries_[kind].map; }

 private:
  struct Entry {
    FieldMap map;
    std::string problem = "this version does not know the event";
    bool same = false;
  };
  Entry entries_[kKindLimit];
};

}  // namespace rtrs::trace
