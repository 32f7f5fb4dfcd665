#include "tools/lib/text/printable.hpp"

#include <gtest/gtest.h>

namespace rtrs::tools {
namespace {

TEST(Printable, WhatBeginsALineOrSteersATerminalIsShown) {
  EXPECT_EQ(printable("disk\nnbdkit: error\x1b[2J"), "disk\\x0anbdkit: error\\x1b[2J");
  EXPECT_EQ(printable("plain \u00e4"), "plain \u00e4");
}

TEST(Printable, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened("ab\u20accd", 4), "ab...");
  EXPECT_EQ(shortened("\x80\x80\x80", 1), "...");
}

}  // namespace
}  // namespace rtrs::tools
