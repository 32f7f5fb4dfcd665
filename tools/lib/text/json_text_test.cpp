#include "tools/lib/text/json_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rtrs::tools::json_text_test {
namespace {

using nlohmann::json;

TEST(JsonText, OutputIsAscii) {
  EXPECT_EQ(json_text(json{{"name", "\u009b\u202e\u00e4\x7f"}}), R"({"name":"\u009b\u202e\u00e4\u007f"})");
}

TEST(JsonText, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(json::parse(json_text(json("a\xff"))).get<std::string>(), "a\ufffd");
}

TEST(JsonText, IndentPutsEachMemberOnALine) {
  EXPECT_EQ(json_text(nlohmann::ordered_json{{"b", 1}, {"a", 2}}, 1), "{\n \"b\": 1,\n \"a\": 2\n}");
}

}  // namespace
}  // namespace rtrs::tools::json_text_test
