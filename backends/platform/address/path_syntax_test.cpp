#include "backends/platform/address/path_syntax.hpp"

#include <gtest/gtest.h>

namespace rtrs::net::path_syntax_test {
namespace {

struct Good {
  const char* text;
  const char* source;
  const char* destination;
};

TEST(PathSyntax, AcceptsEveryCommonForm) {
  for (const Good& good : {Good{"10.0.0.2", "", "10.0.0.2"}, Good{"ip:10.0.0.2", "", "10.0.0.2"},
                           Good{"10.0.0.1@10.0.0.2", "10.0.0.1", "10.0.0.2"},
                           Good{"ip:10.0.0.1@ip:10.0.0.2", "10.0.0.1", "10.0.0.2"},
                           Good{"ip:10.0.0.1,ip:10.0.0.2", "10.0.0.1", "10.0.0.2"},
                           Good{"fd00::1@fd00::2", "fd00::1", "fd00::2"}, Good{"ip:::1", "", "::1"},
                           Good{"[::1]:7", "", "[::1]:7"}, Good{"fe80::1%eth0", "", "fe80::1%eth0"},
                           Good{"gid:fe80::1@gid:fe80::2", "gid:fe80::1", "gid:fe80::2"},
                           Good{"storage-1.example", "", "storage-1.example"}}) {
    const auto path = parse_path(good.text, 1234);
    ASSERT_TRUE(path.has_value()) << good.text << ": " << path.error();
    EXPECT_EQ(path->source, good.source) << good.text;
    EXPECT_EQ(path->destination, good.destination) << good.text;
    EXPECT_EQ(path->port, 1234);
  }
}

TEST(PathSyntax, ErrorsNameTheFaultyPart) {
  const auto why = [](const char* text) {
    const auto path = parse_path(text, 1234);
    return path ? std::string("accepted") : path.error();
  };
  EXPECT_EQ(why(""), "path '': expected [source@]destination, for example 10.0.0.1@10.0.0.2");
  EXPECT_EQ(why("10.0.0.1@"), "path '10.0.0.1@': the destination address is empty");
  EXPECT_EQ(why("@10.0.0.1"), "path '@10.0.0.1': the source address is empty");
  EXPECT_EQ(why("ip:"), "path 'ip:': the destination address is empty");
  EXPECT_EQ(why("a@b@c"), "path 'a@b@c': more than one '@' or ','; give each path separately");
  EXPECT_EQ(why("10.0.0.1 "), "path '10.0.0.1 ': the destination address has an invalid character");
  for (const char* text : {"10.0.0.256", "10.0.0.256:7", "1.2.3.4.5", "10.0..1", "..."})
    EXPECT_EQ(why(text), "path '" + std::string(text) + "': the destination address is not an IPv4 address");
  EXPECT_EQ(why("gid:"), "path 'gid:': the destination address is empty");
  for (const char* text : {"127.0.0.1:65536", "127.0.0.1:-1", "a:b", "127.0.0.1:", "127.0.0.1:0", "[::1]:0",
                           "[::1]:", "127.0.0.1:18446744073709551617", "[::1]x"})
    EXPECT_EQ(why(text),
              "path '" + std::string(text) + "': the destination address has an invalid port (1 to 65535)");
  EXPECT_EQ(why("127.0.0.1:1:2"),
            "path '127.0.0.1:1:2': the destination address is not an IPv6 address; with a port it is written "
            "[ADDRESS]:PORT");
  for (const char* text : {"[::1", "[]:5", "[1.2.3.4]"})
    EXPECT_EQ(why(text),
              "path '" + std::string(text) + "': the destination address has no IPv6 address in brackets");
  EXPECT_EQ(why(":1234"), "path ':1234': the destination address is empty before its port");
  EXPECT_EQ(why("10.0.0.1:7@10.0.0.2"),
            "path '10.0.0.1:7@10.0.0.2': the source address has a port; only the destination takes one");
}

TEST(PathSyntax, PortInTheTextOverridesTheDefault) {
  const auto endpoint = [](const char* text) { return endpoint_text(*parse_path(text, 1234)); };
  EXPECT_EQ(endpoint("10.0.0.1@10.0.0.2"), "10.0.0.2:1234");
  EXPECT_EQ(endpoint("10.0.0.2:7"), "10.0.0.2:7");
  EXPECT_EQ(endpoint("storage1:7"), "storage1:7");
  EXPECT_EQ(endpoint("fd00::2"), "[fd00::2]:1234");
  EXPECT_EQ(endpoint("[fd00::2]"), "[fd00::2]:1234");
  EXPECT_EQ(endpoint("[fd00::2]:7"), "[fd00::2]:7");
  EXPECT_EQ(endpoint("gid:fe80::2"), "[gid:fe80::2]:1234");
  EXPECT_EQ(port_of(*parse_path("10.0.0.2:7", 1234)), 7);
  EXPECT_TRUE(same_path(*parse_path("10.0.0.2:1234", 7), *parse_path("10.0.0.2", 1234)));
  EXPECT_TRUE(same_path(*parse_path("[fd00::2]:1234", 7), *parse_path("FD00:0::2", 1234)));
  EXPECT_FALSE(same_path(*parse_path("10.0.0.2:7", 1234), *parse_path("10.0.0.2", 1234)));
  EXPECT_TRUE(
      same_path(PathAddress{"ip:10.0.0.1", "ip:10.0.0.2:7", 1}, PathAddress{"10.0.0.1", "10.0.0.2", 7}));
}

TEST(PathSyntax, TheScopeOfALinkLocalAddressIsKept) {
  const auto path = [](const char* text) { return *parse_path(text, 1234); };
  EXPECT_EQ(path("fe80::1%eth0@fe80::2%eth0").source, "fe80::1%eth0");
  EXPECT_EQ(endpoint_text(path("fe80::2%eth0")), "[fe80::2%eth0]:1234");
  EXPECT_EQ(endpoint_text(path("[fe80::2%eth0]:7")), "[fe80::2%eth0]:7");
  EXPECT_TRUE(same_path(path("fe80::1%eth0"), path("FE80:0::1%eth0")));
  EXPECT_TRUE(same_path(path("[fe80::1%eth0]"), path("fe80::1%eth0")));
  EXPECT_FALSE(same_path(path("fe80::1%eth0"), path("fe80::1%eth1")));
  EXPECT_FALSE(same_path(path("fe80::1%eth0"), path("fe80::1%ETH0")));
}

TEST(PathSyntax, LinkLocalAddressesRequireAnInterface) {
  for (const char* text :
       {"fe80::1", "[fe80::1]:7", "ip:FE80::1", "fe80::1@fe80::2%eth0", "10.0.0.1@fe80::1"})
    EXPECT_NE(parse_path(text, 1).error().find("a link-local address needs its interface"), std::string::npos)
        << text;
  for (const char* text : {"fe80::1%eth0", "fe80::1%eth0@fe80::2", "gid:fe80::1", "fec0::1", "fe80"})
    EXPECT_TRUE(parse_path(text, 1)) << text;
}

TEST(PathSyntax, ParsedPathsPrintTheSameText) {
  for (const char* text : {"10.0.0.2", "10.0.0.1@10.0.0.2", "fd00::1@fd00::2", "fe80::1%eth0@fe80::2%eth0"})
    EXPECT_EQ(to_text(*parse_path(text, 1)), text);
}

}  // namespace
}  // namespace rtrs::net::path_syntax_test
