// Translates trace records to events of the specification. Finds fields by the names in the schema of the
// trace, so that traces of other versions can be read if they use the same names.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/spec/event.hpp"
#include "core/record/codec.hpp"
#include "core/record/schema.hpp"
#include "tools/lib/trace/judge/translate_devices.hpp"

namespace rtrs::trace {

class Translator {
 public:
  // `schema`: from the header of the trace; must outlive the translator.
  explicit Translator(const trace::Schema& schema);
  // Returns nullptr for an event that no rule uses. The event is valid until the next call; its bytes point
  // into the record.
  const spec::Event* translate(const trace::Record&);
  // The same for the events of block device machines.
  const spec::DeviceEvent* translate_device(const trace::Record& record) {
    return devices_.translate(record);
  }

 private:
  using Setter = void (*)(spec::Event&, std::uint64_t number, std::string_view bytes);
  // Describes how an event stores a value: as a number at `offset`, or through the function `set`.
  struct Target {
    enum class Form : std::uint8_t { none, flag, bits8, bits16, bits32, bits64, by_function };
    Form form = Form::none;
    std::uint16_t offset = 0;
    Setter set = nullptr;
  };
  struct Field {
    Target target;
    std::size_t at = 0;  // index of the value in the record
    // For enumerations: numbers in the specification, indexed by the number in the trace.
    std::vector<std::uint64_t> words;
  };
  struct Entry {
    std::optional<spec::Kind> kind;
    std::vector<Field> fields;
  };
  struct Named;
  static const Named kFields[];
  static const Named kReceive, kCm;
  static Field field_of(const trace::FieldInfo&, const trace::Schema&);
  void store(const Target&, std::uint64_t number, std::string_view bytes) noexcept;

  std::vector<Entry> entries_;  // indexed by the number of the event
  spec::Event event_;
  DeviceTranslator devices_;
};

}  // namespace rtrs::trace
