// Tests the command line: nouns, verbs, prefixes, plurals, options with and without dashes, and errors.
#include "tools/urtrs/command/arguments.hpp"

#include <gtest/gtest.h>

namespace rtrs::admin::arguments_test {
namespace {

using Words = std::vector<std::string>;

Command good(const Words& words) {
  const auto command = parse(words);
  EXPECT_TRUE(command) << (command ? "" : command.error().message);
  return command.value_or(Command{});
}
Mistake bad(const Words& words) {
  const auto command = parse(words);
  EXPECT_FALSE(command);
  return command ? Mistake{} : command.error();
}

TEST(Arguments, NounVerbAndArgumentsAreParsed) {
  const Command command = good({"path", "disconnect", "web1", "ip:10.0.0.1@ip:10.0.0.2"});
  EXPECT_EQ(command.noun, "path");
  EXPECT_EQ(command.verb, "disconnect");
  EXPECT_EQ(command.arguments, (Words{"web1", "ip:10.0.0.1@ip:10.0.0.2"}));
}

TEST(Arguments, PluralsPrefixesAndTheSideAreAccepted) {
  for (const Words& words : {Words{"session", "list"}, Words{"sessions", "list"},
                             Words{"server", "session", "list"}, Words{"sess", "li"}, Words{"sessions"}}) {
    EXPECT_EQ(good(words).noun, "session");
    EXPECT_EQ(good(words).verb, "list");
  }
}

TEST(Arguments, VerbsWithoutANounAreAccepted) {
  EXPECT_EQ(good({"stats"}).verb, "stats");
  EXPECT_EQ(good({"mon"}).verb, "monitor");
  EXPECT_EQ(good({"trace", "start", "/tmp/x"}).arguments, (Words{"start", "/tmp/x"}));
}

TEST(Arguments, DoctorRdmaOptionsAreStored) {
  const Command command = good({"doctor", "--rdma", "--rdma-device=mlx5_0", "--rounds", "1000000"});
  EXPECT_EQ(command.options.rdma, (RdmaOptions{true, false, "mlx5_0", 1'000'000}));
  EXPECT_EQ(good({"doctor", "--rdma", "10.0.0.1", "--port=7"}).options.map.parameters["port"], "7");
  EXPECT_TRUE(good({"doctor", "--rdma", "--listen", "--port=7"}).options.rdma.listens);
  for (const Words& words : {Words{"doctor", "--listen"}, Words{"stats", "--rdma"},
                             Words{"doctor", "--rounds=5"}, Words{"doctor", "--rdma-device=mlx5_0"}})
    EXPECT_EQ(bad(words).message,
              "--rdma, --listen, --rdma-device and --rounds are for \"urtrs doctor --rdma\"");
  EXPECT_EQ(bad({"doctor", "10.0.0.1"}).message, "an address is for \"urtrs doctor --rdma\"");
  EXPECT_EQ(bad({"doctor", "--rdma", "--rounds=0"}).message, "--rounds: expected 1 to 1000000, got \"0\"");
  EXPECT_EQ(bad({"doctor", "--rdma", "10.0.0.1", "--rdma-device=mlx5_0"}).message,
            "--rdma-device is for a test without a peer");
  EXPECT_FALSE(bad({"doctor", "--rdma", "--port=7"}).message.empty()) << "needs an address or --listen";
  EXPECT_FALSE(bad({"doctor", "--rdma", "10.0.0.1", "--fabric=tcp"}).message.empty());
}

TEST(Arguments, AmbiguousWordsAreRejected) {
  EXPECT_EQ(bad({"s"}).message, "\"s\" is ambiguous: session, stats");
  EXPECT_EQ(bad({"session", "x"}).message, "unknown session command \"x\"");
}

TEST(Arguments, MisspeltWordGivesAHint) {
  EXPECT_EQ(bad({"sesion", "list"}).hint, "did you mean \"session\"?");
  EXPECT_EQ(bad({"path", "disconect", "a", "b"}).hint, "did you mean \"disconnect\"?");
  EXPECT_EQ(bad({"session", "list", "--jsn"}).hint, "did you mean \"--json\"?");
}

TEST(Arguments, CommandOfTheOtherSideIsSuggested) {
  EXPECT_EQ(bad({"path", "reconnect", "web1", "0"}).hint, "did you mean \"urtrs client path reconnect\"?");
  EXPECT_EQ(bad({"session", "policy", "web1", "rr"}).hint, "did you mean \"urtrs client session policy\"?");
  EXPECT_EQ(bad({"client", "device", "close", "disk0"}).hint, "did you mean \"urtrs device close\"?");
  EXPECT_EQ(bad({"client", "export", "list"}).hint, "did you mean \"urtrs export\"?");
  EXPECT_EQ(bad({"client", "path", "disconect", "web1", "0"}).hint, "did you mean \"disconnect\"?");
  EXPECT_NE(bad({"client", "trace", "dump", "x"}).hint.find("SIGUSR1 to its nbdkit"), std::string::npos);
}

TEST(Arguments, TooFewAndTooManyArgumentsAreRejected) {
  EXPECT_EQ(bad({"path", "disconnect", "web1"}).message,
            "urtrs path disconnect takes SESSION PATH, not 1 argument");
  EXPECT_EQ(bad({"path", "disconnect", "web1"}).hint, "see urtrs path disconnect --help");
  EXPECT_EQ(bad({"session", "list", "a", "b"}).message,
            "urtrs session list takes no argument, not 2 arguments");
}

TEST(Arguments, OptionsAreAcceptedWithAndWithoutDashes) {
  for (const Words& words :
       {Words{"path", "list", "json", "K", "noheaders", "notree", "nototals"},
        Words{"path", "--json", "list", "--unit=K", "--no-headers", "--no-tree", "--no-totals"},
        Words{"--json", "--unit", "K", "path", "list", "noheaders", "--notree", "nototals"}}) {
    const Options options = good(words).options;
    EXPECT_EQ(options.format, Format::json);
    EXPECT_EQ(options.unit, 'K');
    EXPECT_FALSE(options.headers);
    EXPECT_FALSE(options.tree);
    EXPECT_FALSE(options.totals);
  }
}

TEST(Arguments, FieldsAreCollectedInOrder) {
  EXPECT_EQ(good({"path", "list", "+reads", "-state", "all"}).options.fields,
            (Words{"+reads", "-state", "all"}));
  EXPECT_EQ(good({"path", "list", "--fields=sessname,state"}).options.fields, (Words{"sessname", "state"}));
}

TEST(Arguments, ValuesOfOptionsAreChecked) {
  EXPECT_EQ(good({"top", "--interval=0.5", "--count", "3"}).options.interval, 0.5);
  EXPECT_EQ(good({"top", "--interval=0.5", "--count", "3"}).options.count, 3U);
  for (const char* wrong : {"--interval=0", "--interval=x", "--interval=", "--count=0", "--count=-1",
                            "--count=1.5", "--count=nan", "--unit=KB", "--unit="})
    EXPECT_FALSE(bad({"top", wrong}).message.empty()) << wrong;
  EXPECT_EQ(bad({"top", "--socket"}).message, "--socket needs a value");
}

TEST(Arguments, WordsAfterTwoDashesAreArguments) {
  EXPECT_EQ(good({"session", "disconnect", "--", "json"}).arguments, Words{"json"});
  EXPECT_EQ(good({"session", "disconnect", "--", "--help"}).arguments, Words{"--help"});
}

TEST(Arguments, ErrorRecordsTheJsonOption) {
  EXPECT_TRUE(bad({"sesion", "--json"}).json);
  EXPECT_FALSE(bad({"sesion"}).json);
}

TEST(Arguments, HelpNeedsNoArguments) {
  EXPECT_TRUE(good({}).options.help);
  EXPECT_TRUE(good({"path", "disconnect", "--help"}).options.help);
  EXPECT_NE(help(good({"path", "disconnect", "--help"})).find("SESSION PATH"), std::string::npos);
  EXPECT_TRUE(good({"path", "--help-all"}).options.help_all);
  EXPECT_EQ(help(good({"help-all"})), help_all());
  EXPECT_EQ(good({"--version"}).verb, "version");
}

TEST(Arguments, HelpFitsATerminal) {
  std::string line;
  for (const char c : help() + help_all()) {
    if (c != '\n') {
      line += c;
      continue;
    }
    EXPECT_LE(line.size(), 80U) << line;
    line.clear();
  }
}

}  // namespace
}  // namespace rtrs::admin::arguments_test
