// Rows of values as a table for people, CSV or JSON.
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

// A row has a member for each field; `children` are rows of other fields below it in the tree.
struct Row {
  nlohmann::json values;
  std::vector<std::string> children;  // lines
};

struct Table {
  const char* name;  // of the array in JSON: "sessions"
  std::vector<Field> fields;
  std::vector<Row> rows;
  std::vector<const char*>
      spare{};  // fields that a narrow terminal does without, the first of them goes first
};

using tools::printable;

// "200.000K", "17", "1.500M"; with `unit` always in that one.
std::string bytes_text(std::uint64_t bytes, char unit);

// Fields that `wanted` asks for, in order: names replace the defaults, +name adds, -name leaves out, "all".
tl::expected<std::vector<Field>, Mistake> choose(const std::vector<Field>& fields,
                                                 const std::vector<std::string>& wanted);

// Returns the text to print, with its last newline. An empty table is its header; in JSON it is [].
tl::expected<std::string, Mistake> render(const Table& table, const Options& options, int schema_version);

}  // namespace rtrs::admin
