// Records of a trace as events of the specification. Goes by the names that the trace itself carries, so
// traces of other versions are understood as far as their words are the same.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/spec/event.hpp"
#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::sim {

class Translator {
 public:
  // `schema` is of the trace's header and outlives the translator.
  explicit Translator(const trace::Schema& schema);
  // Null for events that no rule looks at. Valid until the next call; bytes are borrowed from the record.
  const spec::Event* translate(const trace::Record&);

 private:
  using Setter = void (*)(spec::Event&, std::uint64_t number, std::string_view bytes);
  struct Field {
    Setter set = nullptr;
    std::vector<std::uint64_t> words;  // of enumerations: the specification's number, by the trace's
  };
  struct Entry {
    std::optional<spec::Kind> kind;
    std::vector<Field> fields;
  };
  static Field field_of(const trace::FieldInfo&, const trace::Schema&);

  std::vector<Entry> entries_;  // by event number
  spec::Event event_;
};

}  // namespace rtrs::sim
