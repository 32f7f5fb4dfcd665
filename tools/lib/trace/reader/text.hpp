// Converts records to lines of readable text.
#pragma once
#include <string>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::trace {

// Returns the fields as "name=value", separated by spaces. Enumerations are shown as words.
std::string fields_text(const EventInfo& event, std::span<const Value> values, const Schema& schema);
// Returns the value as text: number, word, true/false, hexadecimal uuid or bytes, or quoted text.
std::string value_text(const FieldInfo& field, const Value& value, const Schema& schema);
// Returns seconds with nine decimals; "never" for kNever.
std::string time_text(Nanos time);
// Returns time, instance, class, event and fields in columns. Actions and notes are indented below their
// input.
std::string record_text(const Record& record, const Schema& schema);
std::string hex_text(std::string_view bytes);

}  // namespace rtrs::trace
