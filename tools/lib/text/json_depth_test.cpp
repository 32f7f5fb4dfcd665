#include "tools/lib/text/json_depth.hpp"

#include <gtest/gtest.h>

#include <string>

namespace rtrs::tools::json_depth_test {
namespace {

TEST(JsonDepth, CountsNestedObjectsAndArrays) {
  EXPECT_FALSE(is_nested_deeper("7", 0));
  EXPECT_TRUE(is_nested_deeper("[]", 0));
  EXPECT_FALSE(is_nested_deeper(R"({"a":[{"b":1}]})", 3));
  EXPECT_TRUE(is_nested_deeper(R"({"a":[{"b":1}]})", 2));
  EXPECT_FALSE(is_nested_deeper("[[],[],{},[{}]]", 3)) << "siblings are not nested";
  EXPECT_TRUE(is_nested_deeper(std::string(100'000, '['), 16));
}

TEST(JsonDepth, BracketsInsideStringsDoNotCount) {
  EXPECT_FALSE(is_nested_deeper(R"(["[[[{{{"])", 1));
  EXPECT_FALSE(is_nested_deeper(R"(["\"[[","\\"])", 1));
  EXPECT_TRUE(is_nested_deeper(R"(["\\",[]])", 1)) << "a quote after an escaped backslash ends the string";
  EXPECT_TRUE(is_nested_deeper(R"(["]]",[]])", 1));
  EXPECT_FALSE(is_nested_deeper("\"\\", 0)) << "truncated within an escape";
}

}  // namespace
}  // namespace rtrs::tools::json_depth_test
