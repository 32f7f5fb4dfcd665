// Checks that docs/schema/urtrs.json matches the fields of all tables. To update the file after a change:
// URTRS_WRITE_SCHEMA=1 build/release/tools/urtrs/tools_urtrs_tests --gtest_filter='TableSchema.*'
#include "tools/lib/text/test_schema.hpp"
#include "tools/urtrs/views/client_views.hpp"
#include "tools/urtrs/views/mappings.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin::table_schema_test {
namespace {

using tools::Schema;

TEST(TableSchema, SchemaMatchesTheFieldsOfEachTable) {
  const nlohmann::json nothing{{"sessions", nlohmann::json::array()},
                               {"devices", nlohmann::json::array()},
                               {"exports", nlohmann::json::array()}};
  tools::expect_schema(URTRS_SCHEMA, [&nothing](Schema& parts) {
    const auto set = [&parts](const std::string& part, const Table& table, bool show) {
      Schema object = tools::schema_of(table.fields);
      if (!show) return void(parts[part] = std::move(object));
      object.erase("additionalProperties");
      parts[part + "_fields"] = std::move(object);
      parts[part] = {{"$ref", "#/$defs/" + part + "_fields"}, {"unevaluatedProperties", false}};
      Schema alone = tools::schema_of({}, {{"schema_version", {{"const", kSchemaVersion}}}});
      alone.erase("additionalProperties");
      alone.update(parts[part]);
      // `show` prints these objects with the members that are not fields of tables.
      if (part == "path" || part == "device") alone.erase("unevaluatedProperties");
      parts[part + "_show"] = std::move(alone);
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
  });
}

}  // namespace
}  // namespace rtrs::admin::table_schema_test
