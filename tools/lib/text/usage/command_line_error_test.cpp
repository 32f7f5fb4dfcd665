// Tests the one-line error messages for wrong command lines.
#include "tools/lib/text/usage/command_line_error.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/lib/text/usage/json_error.hpp"

namespace rtrs::tools::command_line_error_test {
namespace {

std::string said(std::vector<std::string> words) {
  CLI::App app("", "tool");
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run");
  int seed = 0;
  bool quick = false;
  std::string text;
  std::string file;
  run->add_option("--seed", seed);
  run->add_option("--file", text);
  run->add_flag("--quick", quick);
  run->add_option("FILE", file)->required();
  app.add_subcommand("sweep");
  try {
    app.parse(words_to_parse(app, words));
  } catch (const CLI::ParseError& error) {
    return command_line_error(app, error);
  }
  return "nothing";
}

TEST(WordsToParse, EmptyValueIsASeparateWord) {
  using Words = std::vector<std::string>;
  const CLI::App app;
  EXPECT_EQ(words_to_parse(app, {"--a=", "--b=1", "c="}), (Words{"c=", "--b=1", "", "--a"}));
  EXPECT_EQ(words_to_parse(app, {"--", "--a="}), (Words{"--a=", "--"}));
  EXPECT_EQ(words_to_parse(app, {"--a=b="}), (Words{"--a=b="}));
}

TEST(CommandLineError, NamesTheWordAndTheNearestOption) {
  EXPECT_EQ(said({"run", "--sed", "4", "x"}),
            "tool: unknown option \"--sed\" of run; did you mean \"--seed\"?\n");
  EXPECT_EQ(said({"run", "--sed=4", "x"}),
            "tool: unknown option \"--sed=4\" of run; did you mean \"--seed\"?\n");
  EXPECT_EQ(said({"run", "--verbose", "x"}),
            "tool: unknown option \"--verbose\" of run; see tool run --help\n");
  EXPECT_EQ(said({"run", "x", "y"}), "tool: unknown argument \"y\" of run; see tool run --help\n");
}

TEST(CommandLineError, MissingCommandListsTheCommands) {
  EXPECT_EQ(said({}), "tool: no command is given; the commands are run, sweep; see tool --help\n");
}

TEST(CommandLineError, MissingAndInvalidValuesAreReportedOnOneLine) {
  EXPECT_EQ(said({"run"}), "tool: FILE is required; see tool run --help\n");
  EXPECT_EQ(said({"run", "--seed", "x", "file"}),
            "tool: --seed: expected a number in its range, got \"x\"; see tool run --help\n");
  EXPECT_EQ(said({"run", "file", "--seed"}), "tool: --seed needs a value: INT; see tool run --help\n");
}

TEST(CommandLineError, OptionIsNotTakenAsAValue) {
  const std::string missing =
      "tool: --seed needs a value, but the next argument, \"--file=x\", is an option; see tool --help\n";
  EXPECT_EQ(said({"run", "--seed", "--file=x"}), missing);
  EXPECT_EQ(said({"--seed", "--file=x", "run"}), missing) << "also before the subcommand";
  EXPECT_EQ(said({"run", "--file", "--seedling", "x"}), "nothing") << "not an option, so a value";
  EXPECT_EQ(said({"run", "--seed=1", "--file=x", "x"}), "nothing");
  EXPECT_EQ(said({"run", "--quick", "--seed", "1", "x"}), "nothing") << "an option without a value";
}

TEST(JsonError, IsOneLineForAnyMessage) {
  EXPECT_EQ(json_error(2, "no \"x\\\n\x01\"\n\n"),
            "{\"schema_version\":1,\"error\":{\"code\":\"usage\",\"message\":\"no "
            "\\\"x\\\\\\u000a\\u0001\\\"\"}}\n");
  const char* const words[] = {"tool", "--json=x", "--", "--json"};
  EXPECT_TRUE(wants_json(2, words));
  EXPECT_FALSE(wants_json(1, words));
  const char* const behind[] = {"tool", "--", "--json"};
  EXPECT_FALSE(wants_json(3, behind));
}

TEST(CommandLineError, ArgumentCannotControlTheTerminal) {
  EXPECT_EQ(said({"run", "--\x1b[2J\n", "x"}).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace rtrs::tools::command_line_error_test
