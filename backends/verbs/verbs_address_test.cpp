#include "backends/verbs/verbs_address.hpp"

#include <gtest/gtest.h>

namespace rtrs::verbs::verbs_address_test {
namespace {

std::string canonical_text(const char* text) {
  const auto address = parse_address(text, 1234);
  return address ? to_text(address->get()) : "refused";
}

TEST(VerbsAddress, ip_addresses_have_the_common_syntax) {
  EXPECT_EQ(canonical_text("10.0.0.1"), "10.0.0.1:1234");
  EXPECT_EQ(canonical_text("ip:fd00::1"), "[fd00::1]:1234");
}

TEST(VerbsAddress, a_gid_keeps_its_port) {
  EXPECT_EQ(canonical_text("gid:fe80::2:c903:21:f4bd"), "gid:[fe80::2:c903:21:f4bd]:1234");
  EXPECT_TRUE(is_gid(parse_address("gid:fe80::1", 1)->get()));
  EXPECT_FALSE(is_gid(parse_address("fe80::1", 1)->get()));
}

TEST(VerbsAddress, an_invalid_gid_is_rejected) {
  for (const char* text : {"gid:", "gid:10.0.0.1", "gid:fe80::1:", "gid:storage", "gid:fe80::1%eth0"}) {
    EXPECT_EQ(canonical_text(text), "refused") << text;
  }
}

TEST(VerbsAddress, wildcards_are_recognised) {
  for (const char* text : {"0.0.0.0", "::"}) EXPECT_TRUE(is_wildcard(parse_address(text, 1)->get())) << text;
  for (const char* text : {"127.0.0.1", "::1", "gid:fe80::1"})
    EXPECT_FALSE(is_wildcard(parse_address(text, 1)->get())) << text;
}

TEST(VerbsAddress, missing_addresses_print_a_question_mark) {
  EXPECT_EQ(to_text(nullptr), "?");
  const sockaddr unspecified{};
  EXPECT_EQ(to_text(&unspecified), "?");
}

TEST(VerbsAddress, pair_digests_depend_on_gids_but_not_on_ports) {
  const auto digest = [](const char* client, const char* server, std::uint16_t port) {
    return address_pair_digest(parse_address(client, port)->get(), parse_address(server, 1234)->get());
  };
  EXPECT_EQ(digest("gid:fe80::1", "gid:fe80::2", 1), digest("gid:fe80::1", "gid:fe80::2", 2));
  EXPECT_NE(digest("gid:fe80::1", "gid:fe80::2", 1), digest("gid:fe80::3", "gid:fe80::2", 1));
  EXPECT_NE(digest("gid:fe80::1", "gid:fe80::2", 1), digest("gid:fe80::2", "gid:fe80::1", 1));
}

}  // namespace
}  // namespace rtrs::verbs::verbs_address_test
