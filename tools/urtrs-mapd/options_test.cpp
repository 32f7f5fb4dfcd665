// The command line of urtrs-mapd, and URIs of devices.
#include "tools/urtrs-mapd/options.hpp"

#include <gtest/gtest.h>

#include "tools/urtrs-mapd/control.hpp"

namespace rtrs::mapd {
namespace {

std::string why(const std::vector<std::string>& words) {
  const auto options = parse(words);
  return options ? "taken" : options.error();
}

TEST(MapdOptions, BothSpellingsOfAValue) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--state=/tmp/s", "--control-group=g", "--nbdkit=/bin/true", "--end-devices",
                                 "reconnect_max=1s"},
        std::vector<std::string>{"--state", "/tmp/s", "--control-group", "g", "--nbdkit", "/bin/true",
                                 "reconnect_max=1s", "--end-devices"}}) {
    const auto options = parse(words);
    ASSERT_TRUE(options) << options.error();
    EXPECT_EQ(options->state, "/tmp/s");
    EXPECT_EQ(options->group, "g");
    EXPECT_EQ(options->nbdkit, "/bin/true");
    EXPECT_TRUE(options->end_devices);
    EXPECT_EQ(options->parameters, std::vector<std::string>{"reconnect_max=1s"});
  }
}

TEST(MapdOptions, Mistakes) {
  EXPECT_EQ(why({"--stat=x"}), "unknown option \"--stat=x\"; did you mean \"--state=FILE\"?");
  EXPECT_EQ(why({"--zzz"}), "unknown option \"--zzz\"; see urtrs-mapd --help");
  EXPECT_EQ(why({"--state"}), "--state needs a value");
  EXPECT_EQ(why({"disk0"}),
            "\"disk0\" is no KEY=VALUE, a parameter of the nbdkit plugin; see nbdkit-urtrs --help");
  for (const char* key : {"path", "device", "session", "control", "exports", "trace"})
    EXPECT_EQ(why({std::string(key) + "=x"}),
              std::string(key) + "= is not for all sessions; \"urtrs map\" gives what a session needs");
}

TEST(MapdUri, WhatAUriCannotHaveIsEscaped) {
  EXPECT_EQ(uri_of("disk0", "/run/urtrs/nbd-s.sock"), "nbd+unix:///disk0?socket=/run/urtrs/nbd-s.sock");
  EXPECT_EQ(uri_of("a b?c&d%e/f#", "/run/nbd-h@s.sock"),
            "nbd+unix:///a%20b%3Fc%26d%25e/f%23?socket=/run/nbd-h%40s.sock");
  EXPECT_EQ(uri_of("\xc3\xa4", "/s"), "nbd+unix:///%C3%A4?socket=/s");
}

}  // namespace
}  // namespace rtrs::mapd
