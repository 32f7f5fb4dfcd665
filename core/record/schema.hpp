// Layout of events: the tables in the header of a trace, which let every reader print every event, and the
// tables of this build.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/record/kinds.hpp"

namespace rtrs::trace {

// The numbers are part of the format.
enum class FieldType : std::uint8_t {
  unsigned_number = 1,  // varint
  signed_number = 2,    // zigzag varint
  boolean = 3,          // varint, 0 or 1
  enumeration = 4,      // varint, words in the table of enumerations
  uuid = 5,             // 16 bytes
  bytes = 6,            // varint length, bytes
  text = 7,             // varint length, UTF-8
};

struct FieldInfo {
  std::string name;  // nested members are joined by a dot: key.path
  FieldType type = FieldType::unsigned_number;
  std::uint8_t width = 0;         // bytes: 1, 2, 4 or 8 for number, boolean and enumeration; else 0
  std::uint16_t enumeration = 0;  // index into Schema::enums
  bool operator==(const FieldInfo&) const = default;
};

struct EventInfo {
  KindId id = 0;
  EventClass category = EventClass::control;
  std::string name;
  std::vector<FieldInfo> fields;
  bool operator==(const EventInfo&) const = default;
};

struct EnumWord {
  std::uint64_t value = 0;
  std::string word;
  bool operator==(const EnumWord&) const = default;
};
struct EnumInfo {
  std::string name;
  std::vector<EnumWord> words;
  // Empty for a value without a word.
  std::string_view word_of(std::uint64_t value) const noexcept;
  // Returns false for an unknown word.
  bool value_of(std::string_view word, std::uint64_t& value) const noexcept;
  bool operator==(const EnumInfo&) const = default;
};

struct Schema {
  std::vector<EnumInfo> enums;
  std::vector<EventInfo> events;  // ascending ids
  const EventInfo* find(KindId) const noexcept;
  const EventInfo* find(std::string_view name) const noexcept;
  bool operator==(const Schema&) const = default;
};

// The events of this build.
const Schema& builtin_schema();

}  // namespace rtrs::trace
