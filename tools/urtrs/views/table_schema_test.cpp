// Checks that docs/schema/urtrs.json matches the fields of all tables. To update the file after a change:
// URTRS_WRITE_SCHEMA=1 build/release/tools/urtrs/tools_urtrs_tests --gtest_filter='TableSchema.*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/urtrs/views/client_views.hpp"
#include "tools/urtrs/views/mappings.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin::table_schema_test {
namespace {

using Schema = nlohmann::ordered_json;
using Value = Field::Value;

Schema schema_of(const Field& field) {
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

// `version`: the object is a complete reply, which has a version. `open`: the object may have members that
// are not fields.
Schema schema_of(const Table& table, bool version, bool open) {
  Schema properties = Schema::object();
  Schema required = Schema::array();
  if (version) {
    properties["schema_version"] = {{"const", kSchemaVersion}};
    required.push_back("schema_version");
  }
  for (const Field& field : table.fields) {
    properties[field.name] = schema_of(field);
    if (!field.optional) required.push_back(field.name);
  }
  Schema all{{"type", "object"}, {"properties", properties}, {"required", required}};
  if (!open) all["additionalProperties"] = false;
  return all;
}

TEST(TableSchema, SchemaMatchesTheFieldsOfEachTable) {
  const nlohmann::json nothing{{"sessions", nlohmann::json::array()},
                               {"devices", nlohmann::json::array()},
                               {"exports", nlohmann::json::array()}};
  std::ostringstream committed;
  committed << std::ifstream(URTRS_SCHEMA).rdbuf();
  Schema schema = Schema::parse(committed.str());
  const auto set = [&schema](const std::string& part, const Table& table, bool show) {
    schema["$defs"][part] = schema_of(table, false, false);
    if (show) schema["$defs"][part + "_show"] = schema_of(table, true, part == "path" || part == "device");
  };
  set("session", sessions(nothing), true);
  set("path", paths(nothing, {}), true);
  set("device", devices(nothing, {}), true);
  set("export", exports(nothing), false);
  set("client_session", client_sessions(nothing), true);
  set("client_path", client_paths(nothing, {}), true);
  set("client_device", client_devices(nothing, {}), true);
  set("client_counter", client_statistics(nothing), false);
  set("client_timer", client_timers(nothing, {}), false);
  set("mapping", mappings(nothing, {}), true);
  const std::string text = schema.dump(1) + "\n";
  if (std::getenv("URTRS_WRITE_SCHEMA") != nullptr) std::ofstream(URTRS_SCHEMA) << text;
  EXPECT_TRUE(text == committed.str()) << "docs/schema/urtrs.json is not what the fields say; the first "
                                          "lines of this file tell how to write it";
}

}  // namespace
}  // namespace rtrs::admin::table_schema_test
