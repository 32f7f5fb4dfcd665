// Records as one line for people.
#pragma once
#include <string>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::trace {

// field=value for every field, separated by spaces; enumerations by their words.
std::string fields_text(const EventInfo& event, std::span<const Value> values, const Schema& schema);
// The field as text: number, word, true/false, hex of a uuid or bytes, quoted text.
std::string value_text(const FieldInfo& field, const Value& value, const Schema& schema);
// Seconds with nine digits, "never" for kNever.
std::string time_text(Nanos time);
// Time, instance, class, event, fields in columns. Actions and notes are set in under their
// input.
std::string record_text(const Record& record, const Schema& schema);
std::string hex_text(std::string_view bytes);

}  // namespace rtrs::trace
