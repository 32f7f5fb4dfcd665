#include "core/driver/access.hpp"

#include <gtest/gtest.h>

namespace rtrs::access_test {
namespace {

AccessRules rules(std::string_view addresses, std::string_view identities = {},
                  std::string_view sessions = {}) {
  const auto parsed = parse_access(addresses, identities, sessions);
  EXPECT_TRUE(parsed) << parsed.error();
  return parsed ? *parsed : AccessRules{};
}

bool admits(const AccessRules& which, const std::string& address) {
  const bool six = address.find(':') != std::string::npos;
  return allows_client(which, (six ? "[" + address + "]" : address) + ":40112 > 10.0.0.2:1234", {});
}

TEST(Access, without_rules_every_client_is_accepted) {
  const AccessRules none = rules({});
  EXPECT_FALSE(none.any());
  EXPECT_TRUE(allows_client(none, "10.0.0.7:1 > 10.0.0.2:1234", {}));
  EXPECT_TRUE(allows_client(none, "", {}));
  EXPECT_TRUE(allows_session(none, "web1", "alice"));
}

TEST(Access, ScopeOfAClientAddressIsIgnored) {
  EXPECT_TRUE(admits(rules("fe80::/10"), "fe80::1%eth0"));
  EXPECT_FALSE(admits(rules("fd00::/8"), "fe80::1%eth0"));
}

TEST(Access, range_covers_exactly_its_prefix) {
  const AccessRules ten = rules("10.0.0.0/8");
  EXPECT_TRUE(admits(ten, "10.0.0.1"));
  EXPECT_TRUE(admits(ten, "10.255.255.255"));
  EXPECT_FALSE(admits(ten, "11.0.0.0"));
  EXPECT_FALSE(admits(ten, "9.255.255.255"));
  const AccessRules odd = rules("192.168.1.128/25");
  EXPECT_TRUE(admits(odd, "192.168.1.128"));
  EXPECT_TRUE(admits(odd, "192.168.1.255"));
  EXPECT_FALSE(admits(odd, "192.168.1.127"));
  EXPECT_FALSE(admits(odd, "192.168.2.128"));
  const AccessRules six = rules("fd00:1::/31");
  EXPECT_TRUE(admits(six, "fd00:1::7"));
  EXPECT_TRUE(admits(six, "fd00:0:ffff::"));
  EXPECT_FALSE(admits(six, "fd00:2::"));
  EXPECT_TRUE(admits(rules("0.0.0.0/0"), "1.2.3.4"));
  EXPECT_FALSE(admits(rules("0.0.0.0/0"), "fd00::1"));
  EXPECT_TRUE(admits(rules("::/0"), "1.2.3.4"));
}

TEST(Access, single_address_matches_both_notations) {
  const AccessRules one = rules(" 10.0.0.7 , fd00::1");
  EXPECT_TRUE(admits(one, "10.0.0.7"));
  EXPECT_TRUE(admits(one, "::ffff:10.0.0.7"));
  EXPECT_TRUE(admits(one, "fd00::1"));
  EXPECT_FALSE(admits(one, "10.0.0.8"));
  EXPECT_FALSE(admits(one, "fd00::2"));
}

TEST(Access, unparsable_peer_matches_no_range) {
  for (const char* peer :
       {"", " > ", "10.0.0.7", "node 3 > node 1", "gid:fe80::1 > gid:fe80::2", "[10.0.0.7:1 > x"})
    EXPECT_FALSE(allows_client(rules("0.0.0.0/0,::/0"), peer, {})) << peer;
}

TEST(Access, identities_must_match_completely) {
  const AccessRules two = rules({}, "alice,bob");
  EXPECT_TRUE(allows_client(two, "", "alice"));
  EXPECT_TRUE(allows_client(two, "", "bob"));
  for (const char* other : {"", "ali", "alice2", "Alice", "alice,bob"})
    EXPECT_FALSE(allows_client(two, "", other)) << other;
}

TEST(Access, every_list_must_match) {
  const AccessRules both = rules("10.0.0.0/8", "alice");
  EXPECT_TRUE(allows_client(both, "10.1.1.1:1 > x:2", "alice"));
  EXPECT_FALSE(allows_client(both, "11.1.1.1:1 > x:2", "alice"));
  EXPECT_FALSE(allows_client(both, "10.1.1.1:1 > x:2", "bob"));
}

TEST(Access, session_names_must_match_completely) {
  const AccessRules two = rules({}, {}, "web1, web2");
  EXPECT_TRUE(allows_session(two, "web2", "alice"));
  EXPECT_FALSE(allows_session(two, "web", "alice"));
  EXPECT_FALSE(allows_session(two, "web22", "alice"));
  EXPECT_FALSE(allows_session(two, "", "alice"));
}

TEST(Access, rule_can_require_the_identity_as_prefix) {
  const AccessRules own = rules({}, {}, "%IDENTITY%, %IDENTITY%-*, shared*");
  for (const char* name : {"web1", "web1-", "web1-disk", "shared", "shared-7"})
    EXPECT_TRUE(allows_session(own, name, "web1")) << name;
  for (const char* name : {"web", "web12", "web2", "web2-disk", "share", "", "%IDENTITY%"})
    EXPECT_FALSE(allows_session(own, name, "web1")) << name;
  // Without an identity, %IDENTITY% matches no session name.
  EXPECT_FALSE(allows_session(own, "", ""));
  EXPECT_FALSE(allows_session(own, "-disk", ""));
  EXPECT_TRUE(allows_session(own, "shared", ""));
}

TEST(Access, DotInIdentityMatchesUnderscoreInSessionName) {
  const AccessRules own = rules({}, {}, "%IDENTITY%, %IDENTITY%-*");
  for (const char* name : {"web1_example_org", "web1_example_org-nbdkit-5f3a9c01"})
    EXPECT_TRUE(allows_session(own, name, "web1.example.org")) << name;
  for (const char* name : {"web1", "web1_example", "web1-example-org", "web1_example_orgs"})
    EXPECT_FALSE(allows_session(own, name, "web1.example.org")) << name;
  EXPECT_FALSE(allows_session(own, "web1.example.org", "web1_example_org"));
}

TEST(Access, an_invalid_range_is_rejected) {
  for (const char* bad : {"10.0.0.0/33", "fd00::/129", "10.0.0", "host", "10.0.0.0/", "10.0.0.0/8x",
                          "10.0.0.0/-1", "1.2.3.4:5", "10.0.0.1,,x"})
    EXPECT_FALSE(parse_access(bad, {}, {})) << bad;
  EXPECT_FALSE(parse_access(" , ", {}, {}));
  EXPECT_FALSE(parse_access({}, ",", {}));
  EXPECT_FALSE(parse_access({}, {}, " "));
}

}  // namespace
}  // namespace rtrs::access_test
