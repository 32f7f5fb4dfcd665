// Compares a file in docs/schema with the fields of the objects that it describes.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tools/lib/text/field.hpp"

namespace rtrs::tools {

using Schema = nlohmann::ordered_json;

inline Schema schema_of(const Field& field) {
  using Value = Field::Value;
  if (field.words != nullptr && *field.words == '^') return {{"type", "string"}, {"pattern", field.words}};
  if (field.words != nullptr) {
    Schema words = Schema::array();
    std::istringstream all(field.words);
    for (std::string one; std::getline(all, one, '|');) words.push_back(one);
    return {{"enum", words}};
  }
  if (field.value == Value::list) return {{"type", "array"}, {"items", {{"type", "string"}}}};
  if (field.value == Value::flag) return {{"type", "boolean"}};
  if (field.kind == Field::Kind::text) return {{"type", "string"}};
  if (field.kind == Field::Kind::seconds) return {{"type", {"number", "null"}}, {"minimum", 0}};
  return {{"type", field.value == Value::real ? "number" : "integer"}, {"minimum", 0}};
}

// Returns the schema of an object with these fields. `others` are members without a field; all are required.
inline Schema schema_of(const std::vector<Field>& fields, Schema others = Schema::object()) {
  Schema required = Schema::array();
  for (const auto& [name, schema] : others.items()) required.push_back(name);
  for (const Field& field : fields) {
    others[field.name] = schema_of(field);
    if (!field.optional) required.push_back(field.name);
  }
  return {{"type", "object"},
          {"properties", std::move(others)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

// Expects that `set_parts`, which sets parts of the schema ("$defs"), does not change the file, besides the
// descriptions of the parts. With URTRS_WRITE_SCHEMA in the environment, writes the file first.
template <class SetParts>
void expect_schema(const std::string& file, const SetParts& set_parts) {
  std::ostringstream committed;
  committed << std::ifstream(file).rdbuf();
  Schema schema = Schema::parse(committed.str());
  const Schema before = schema["$defs"];
  set_parts(schema["$defs"]);
  for (const auto& [name, part] : schema["$defs"].items()) {
    if (!before.contains(name) || !before[name].contains("description") || part.contains("description"))
      continue;
    Schema described{{"description", before[name]["description"]}};
    described.update(part);
    part = std::move(described);
  }
  const std::string text = schema.dump(1) + "\n";
  if (std::getenv("URTRS_WRITE_SCHEMA") != nullptr) std::ofstream(file) << text;
  EXPECT_TRUE(text == committed.str()) << file
                                       << " is not what the fields say; run this test with "
                                          "URTRS_WRITE_SCHEMA=1 to write it";
}

}  // namespace rtrs::tools
