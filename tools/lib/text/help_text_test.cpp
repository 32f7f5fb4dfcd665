#include "tools/lib/text/help_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace rtrs::tools::help_text_test {
namespace {

const std::string kForty(40, 'x');

TEST(HelpText, OnlyTooLongLinesAreWrapped) {
  const std::string fits = kForty + " " + std::string(39, 'y');
  EXPECT_EQ(wrapped(fits), fits);
  EXPECT_EQ(wrapped(fits + "y"), kForty + "\n" + std::string(40, 'y'));
  EXPECT_EQ(wrapped(fits, 1), kForty + "\n " + std::string(39, 'y'));
  EXPECT_EQ(wrapped(""), "");
}

TEST(HelpText, LinesAreWrappedSeparately) {
  EXPECT_EQ(wrapped("a\n\n" + kForty + " " + kForty + " b\nc\n"),
            "a\n\n" + kForty + "\n" + kForty + " b\nc\n");
}

TEST(HelpText, ExamplesAndLongWordsAreNotWrapped) {
  const std::string example = "  " + kForty + " " + kForty;
  EXPECT_EQ(wrapped(example), example);
  EXPECT_EQ(wrapped("a " + kForty + kForty + " b"), "a\n" + kForty + kForty + "\nb");
}

TEST(HelpText, MeaningOfAnEntryBeginsInItsColumn) {
  const std::string gap(kHelpColumn, ' ');
  EXPECT_EQ(help_entry("--a", "what"), "  --a                         what\n");
  EXPECT_EQ(help_entry(std::string(26, 'n'), "what"), "  " + std::string(26, 'n') + "  what\n");
  EXPECT_EQ(help_entry(std::string(27, 'n'), "what"), "  " + std::string(27, 'n') + "\n" + gap + "what\n");
  EXPECT_EQ(help_entry("--a", kForty + " " + kForty),
            "  --a                         " + kForty + "\n" + gap + kForty + "\n");
  EXPECT_EQ(help_entry("--a", ""), "  --a\n");
}

TEST(HelpText, EntriesAreFoundByOptionOrParameterName) {
  const std::string help =
      "Options:\n"
      "  -h,--help                   print this help\n"
      "  --port N                    of the server;\n"
      "                              default: 1234\n"
      "  --portal=X                  another\n"
      "\n"
      "Examples:\n"
      "  tool --port 7\n"
      "tls_cert=FILE, tls_key=FILE\n"
      "                         certificate and key\n"
      "TIME is 5s.\n";
  const std::string port =
      "  --port N                    of the server;\n                              default: 1234\n";
  EXPECT_EQ(help_entries_about(help, "--port"), port);
  EXPECT_EQ(help_entries_about(help, "port"), port);
  EXPECT_EQ(help_entries_about(help, "-h"), "  -h,--help                   print this help\n");
  EXPECT_EQ(help_entries_about(help, "tls_key"),
            "tls_cert=FILE, tls_key=FILE\n                         certificate and key\n");
  for (const char* none : {"", "por", "tool", "FILE", "TIME", "of"})
    EXPECT_EQ(help_entries_about(help, none), "") << none;
}

}  // namespace
}  // namespace rtrs::tools::help_text_test
