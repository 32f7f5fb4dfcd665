// Translates the records of block device machines to events of the specification, by the names in the schema
// of the trace, as Translator does for the other machines.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/spec/device_event.hpp"
#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::trace {

class DeviceTranslator {
 public:
  // `schema`: from the header of the trace.
  explicit DeviceTranslator(const trace::Schema& schema);
  // Returns nullptr for an event of another machine. The event is valid until the next call; its bytes point
  // into the record.
  const spec::DeviceEvent* translate(const trace::Record&);

 private:
  using Setter = void (*)(spec::DeviceEvent&, std::uint64_t number, std::string_view bytes);
  struct Field {
    Setter set = nullptr;
    std::size_t at = 0;               // index of the value in the record
    std::vector<std::uint8_t> words;  // for enumerations: number in the trace -> number in the specification
  };
  struct Entry {
    std::optional<spec::DeviceKind> kind;
    std::vector<Field> fields;
  };
  static Field field_of(const trace::FieldInfo&, const trace::Schema&);

  std::vector<Entry> entries_;  // index: number of the event
  spec::DeviceEvent event_;
};

}  // namespace rtrs::trace
