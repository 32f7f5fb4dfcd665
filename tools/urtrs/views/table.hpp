// Prints rows of values as a table, CSV or JSON.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/text/field.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

using tools::Field;

// `values` has a member for each field. `children` are the lines that the tree shows below the row.
struct Row {
  nlohmann::json values;
  std::vector<std::string> children;  // lines of text
};

struct Table {
  const char* name;  // key of the array in JSON, for example "sessions"
  std::vector<Field> fields;
  std::vector<Row> rows;
  std::vector<const char*> spare{};  // fields to leave out on a narrow terminal, in this order
};

using tools::printable;

// Returns for example "200.000K", "17" or "1.500M". `unit` is the unit to use; 0: a suitable one.
std::string bytes_text(std::uint64_t bytes, char unit);

// Returns the fields that `wanted` selects, in order: a name replaces the default fields, +name adds a field,
// -name removes a field, and "all" selects all fields.
tl::expected<std::vector<Field>, Mistake> choose(const std::vector<Field>& fields,
                                                 const std::vector<std::string>& wanted);

// Returns the text to print, including the last newline. An empty table consists of the header only; in JSON
// it is [].
tl::expected<std::string, Mistake> render(const Table& table, const Options& options, int schema_version);

}  // namespace rtrs::admin
