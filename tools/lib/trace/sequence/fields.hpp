// Finds the fields of a record by name, so that traces of other versions can be read if their names match.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"
#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::tools::sequence {

// Reads fields by name. Record and schema must outlive the object.
class Fields {
 public:
  Fields(const trace::Record& record, const trace::Schema& schema) : record_(record), schema_(schema) {}

  std::string_view event() const noexcept { return record_.event->name; }
  const trace::Record& record() const noexcept { return record_; }
  bool has(std::string_view name) const noexcept { return find(name) >= 0; }
  // number(), flag() and bytes() return 0, false and empty if the field does not exist.
  std::uint64_t number(std::string_view name) const noexcept;
  bool flag(std::string_view name) const noexcept { return number(name) != 0; }
  std::string_view bytes(std::string_view name) const noexcept;
  // Returns the value as readable text.
  std::string word(std::string_view name) const;
  bool has_key() const noexcept { return has("key.path") && has("key.con") && has("key.epoch"); }
  ConKey key() const noexcept;
  // Returns all fields, one line NAME=VALUE each.
  std::string lines() const;

 private:
  int find(std::string_view name) const noexcept;

  const trace::Record& record_;
  const trace::Schema& schema_;
};

// value_of() and number_of() find a field in the result of Fields::lines(). value_of() returns its text
// (empty if missing), number_of() its number (0 if missing or not a number).
std::string_view value_of(std::string_view lines, std::string_view name) noexcept;
std::uint64_t number_of(std::string_view lines, std::string_view name) noexcept;

}  // namespace rtrs::tools::sequence
