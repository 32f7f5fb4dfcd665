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

// `values` has a member for each field. `children`: lines below the row in the tree.
struct Row {
  nlohmann::json values;
  std::vector<std::string> children;  // lines
};

struct Table {
  const char* name;  // name of the array in JSON, for example "sessions"
  std::vector<Field> fields;
  std::vector<Row> rows;
  std::vector<const char*> spare{};  // fields omitted on a narrow terminal, in this order
};

using tools::printable;

// Examples: "200.000K", "17", "1.500M". `unit`: unit to use; 0: chosen for the value.
std::string bytes_text(std::uint64_t bytes, char unit);

// Fields selected by `wanted`, in order: a name replaces the defaults, +name adds, -name removes, "all"
// selects all.
tl::expected<std::vector<Field>, Mistake> choose(const std::vector<Field>& fields,
                                                 const std::vector<std::string>& wanted);

// Returns the text to print, including the last newline. An empty table is only the header; in JSON it is [].
tl::expected<std::string, Mistake> render(const Table& table, const Options& options, int schema_version);

}  // namespace rtrs::admin
