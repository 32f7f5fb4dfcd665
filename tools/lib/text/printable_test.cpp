#include "tools/lib/text/printable.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "core/record/format.hpp"

namespace rtrs::tools::printable_test {
namespace {

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("disk\nnbdkit: error\x1b[2J"), "disk\\x0anbdkit: error\\x1b[2J");
  EXPECT_EQ(printable("\x7f\u009b\u2028"), "\\x7f\\xc2\\x9b\\xe2\\x80\\xa8");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, MarksOfWritingDirectionAreEscaped) {
  EXPECT_EQ(printable("a\u202eb"), "a\\xe2\\x80\\xaeb");
  EXPECT_EQ(printable("\u2066\u061c"), "\\xe2\\x81\\xa6\\xd8\\x9c");
}

TEST(Printable, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xe0\x80\x80"), "\\xe0\\x80\\x80");           // an overlong form
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                    // a truncated character
}

TEST(Printable, SafeTextIsUnchanged) {
  EXPECT_EQ(printable("plain \u00e4 \u20ac \U0001f600"), "plain \u00e4 \u20ac \U0001f600");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, AnyBytesBecomeSafeText) {
  rc::check([] {
    const auto bytes = *rc::gen::container<std::string>(
        rc::gen::oneOf(rc::gen::arbitrary<char>(),
                       rc::gen::element('\xc2', '\x9b', '\xe2', '\x80', '\xae', '\xed', '\xf4', '\x90')));
    const std::string shown = printable(bytes);
    RC_ASSERT(trace::is_utf8(shown));
    for (std::string_view left = shown; !left.empty(); left.remove_prefix(1)) {
      if ((static_cast<unsigned char>(left[0]) & 0xc0) != 0x80) RC_ASSERT(unsafe_bytes(left) == 0U);
    }
    RC_ASSERT(printable(shown) == shown);
  });
}

TEST(Printable, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened("ab\u20accd", 4), "ab...");
  EXPECT_EQ(shortened("\x80\x80\x80", 1), "...");
}

}  // namespace
}  // namespace rtrs::tools::printable_test
