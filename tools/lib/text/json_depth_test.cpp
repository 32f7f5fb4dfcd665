#include "tools/lib/text/json_depth.hpp"

#include <gtest/gtest.h>

#include <string>

namespace rtrs::tools::json_depth_test {
namespace {

TEST(JsonDepth, CountsObjectsAndArraysThatLieInEachOther) {
  EXPECT_FALSE(is_nested_deeper("7", 0));
  EXPECT_TRUE(is_nested_deeper("[]", 0));
  EXPECT_FALSE(is_nested_deeper(R"({"a":[{"b":1}]})", 3));
  EXPECT_TRUE(is_nested_deeper(R"({"a":[{"b":1}]})", 2));
  EXPECT_FALSE(is_nested_deeper("[[],[],{},[{}]]", 3)) << "beside each other";
  EXPECT_TRUE(is_nested_deeper(std::string(100'000, '['), 16));
}

TEST(JsonDepth, WhatATextHoldsIsNoPartOfIt) {
  EXPECT_FALSE(is_nested_deeper(R"(["[[[{{{"])", 1));
  EXPECT_FALSE(is_nested_deeper(R"(["\"[[","\\"])", 1));
  EXPECT_TRUE(is_nested_deeper(R"(["\\",[]])", 1)) << "the quote behind an escaped backslash ends it";
  EXPECT_TRUE(is_nested_deeper(R"(["]]",[]])", 1));
  EXPECT_FALSE(is_nested_deeper("\"\\", 0)) << "it ends amid an escape";
}

}  // namespace
}  // namespace rtrs::tools::json_depth_test
