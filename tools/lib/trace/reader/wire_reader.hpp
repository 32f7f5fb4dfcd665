// Decodes the wire notes of a trace.
#pragma once
#include <variant>

#include "core/record/codec.hpp"
#include "core/record/wire_notes.hpp"

namespace rtrs::trace {

class WireNotes {
 public:
  using Note = std::variant<std::monostate, WireSent, WireReceived, WireCm, WireGap>;

  // `schema`: from the header of the trace.
  explicit WireNotes(const Schema& schema) : compatibility_(schema) {}

  // Returns the wire note in a record; its bytes point into the record. Returns monostate for other events.
  Note note(const Record& record) const noexcept {
    const KindId kind = record.event->id;
    if (record.event->category != EventClass::note || compatibility_.problem(kind) != nullptr) return {};
    const FieldMap& map = compatibility_.map(kind);
    if (kind == kKindOf<WireSent>) return get_struct<WireSent>(record, map);
    if (kind == kKindOf<WireReceived>) return get_struct<WireReceived>(record, map);
    if (kind == kKindOf<WireCm>) return get_struct<WireCm>(record, map);
    if (kind == kKindOf<WireGap>) return get_struct<WireGap>(record, map);
    return {};
  }

 private:
  Compatibility compatibility_;
};

}  // namespace rtrs::trace
