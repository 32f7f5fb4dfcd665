#include "tools/urtrs/views/limit_table.hpp"

#include <gtest/gtest.h>

#include "tools/lib/control/limits/limits.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin::limit_table_test {
namespace {

nlohmann::json row_of(const Table& table, const std::string& name) {
  for (const Row& row : table.rows)
    if (row.values["name"] == name) return row.values;
  return nullptr;
}

TEST(LimitTable, WithoutAServerValuesAreNull) {
  const Table table = limit_table(nullptr);
  EXPECT_EQ(table.rows.size(), tools::limits().size());
  for (const Row& row : table.rows) {
    EXPECT_TRUE(row.values["set"].is_null()) << row.values;
    EXPECT_TRUE(row.values["used"].is_null()) << row.values;
    EXPECT_EQ(row.values.dump().find('`'), std::string::npos) << row.values;
  }
  EXPECT_EQ(row_of(table, "paths")["protocol"], row_of(table, "paths")["value"]);
  EXPECT_TRUE(row_of(table, "files")["value"].is_null()) << "the limit depends on the host";
}

TEST(LimitTable, ValuesOfTheServerAreAddedToTheLimits) {
  const Table table = limit_table({{"limits",
                                    {{{"name", "sessions"}, {"set", 70}, {"used", 3}},
                                     {{"name", "request_bytes"}, {"set", 8192}},
                                     {{"name", "of a later version"}, {"set", 1}}}}});
  EXPECT_EQ(row_of(table, "sessions")["set"], 70);
  EXPECT_EQ(row_of(table, "sessions")["used"], 3);
  EXPECT_EQ(row_of(table, "request_bytes")["set"], 8192);
  EXPECT_TRUE(row_of(table, "request_bytes")["used"].is_null());
  EXPECT_TRUE(row_of(table, "paths")["set"].is_null());
  EXPECT_EQ(table.rows.size(), tools::limits().size());
  EXPECT_THROW(limit_table({{"limits", {{{"name", "sessions"}, {"set", "many"}}}}}), UnexpectedAnswer);
}

}  // namespace
}  // namespace rtrs::admin::limit_table_test
