// Fields of a record by their names, so that traces of other versions can be read as far as they agree.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"
#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::tools::sequence {

// Borrows record and schema.
class Fields {
 public:
  Fields(const trace::Record& record, const trace::Schema& schema) : record_(record), schema_(schema) {}

  std::string_view event() const noexcept { return record_.event->name; }
  const trace::Record& record() const noexcept { return record_; }
  bool has(std::string_view name) const noexcept { return find(name) >= 0; }
  // 0, false and empty where there is no such field.
  std::uint64_t number(std::string_view name) const noexcept;
  bool flag(std::string_view name) const noexcept { return number(name) != 0; }
  std::string_view bytes(std::string_view name) const noexcept;
  // As people read it.
  std::string word(std::string_view name) const;
  bool has_key() const noexcept { return has("key.path") && has("key.con") && has("key.epoch"); }
  ConKey key() const noexcept;
  // name=value, a line each.
  std::string lines() const;

 private:
  int find(std::string_view name) const noexcept;

  const trace::Record& record_;
  const trace::Schema& schema_;
};

// Out of such lines: the value of a field, empty where there is none; and as a number, 0 where it is none.
std::string_view value_of(std::string_view lines, std::string_view name) noexcept;
std::uint64_t number_of(std::string_view lines, std::string_view name) noexcept;

}  // namespace rtrs::tools::sequence
