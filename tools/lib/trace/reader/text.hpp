// Converts records to lines of readable text.
#pragma once
#include <string>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"
#include "tools/lib/trace/reader/time_base.hpp"

namespace rtrs::trace {

// Returns the fields as "name=value", separated by spaces. Enumerations are shown as words.
std::string fields_text(const EventInfo& event, std::span<const Value> values, const Schema& schema);
// Returns the value as text: number, word, true/false, hexadecimal uuid or bytes, or quoted text.
std::string value_text(const FieldInfo& field, const Value& value, const Schema& schema);
// Returns time, instance, class, event and fields in columns. Actions and notes are indented below their
// input.
std::string record_text(const Record& record, const Schema& schema, const TimeBase& times = {});
std::string hex_text(std::string_view bytes);

}  // namespace rtrs::trace
