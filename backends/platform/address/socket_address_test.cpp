#include "backends/platform/address/socket_address.hpp"

#include <gtest/gtest.h>

namespace rtrs::net::socket_address_test {
namespace {

struct Spelling {
  const char* text;
  const char* means;
};

TEST(Address, every_spelling_of_an_address_is_accepted) {
  for (const Spelling& spelling : {
           Spelling{"10.0.0.1", "10.0.0.1:1234"},
           Spelling{"ip:10.0.0.1", "10.0.0.1:1234"},
           Spelling{"10.0.0.1:7", "10.0.0.1:7"},
           Spelling{"ip:::1", "[::1]:1234"},
           Spelling{"::1", "[::1]:1234"},
           Spelling{"[::1]", "[::1]:1234"},
           Spelling{"[::1]:7", "[::1]:7"},
           Spelling{"ip:[fd00::2]:8", "[fd00::2]:8"},
           Spelling{"::ffff:10.0.0.1", "10.0.0.1:1234"},
           Spelling{"localhost:9", nullptr},
       }) {
    const auto address = resolve(spelling.text, 1234);
    ASSERT_FALSE(address.empty()) << spelling.text;
    if (spelling.means != nullptr) {
      EXPECT_EQ(to_text(address.front()), spelling.means) << spelling.text;
    }
  }
}

TEST(Address, an_invalid_address_is_rejected) {
  for (const char* text : {"", "ip:", "1.2.3.4:", "1.2.3.4:99999", "1.2.3.4:x", "[::1", "[::1]7", "1.2.3.4.5",
                           "no such host", "host.invalid", "gid:fe80::1"}) {
    EXPECT_TRUE(resolve(text, 1234).empty()) << text;
  }
}

TEST(Address, TheScopeOfALinkLocalAddressIsKept) {
  const auto at = [](const char* text) { return *parse_address(text, 7); };
  EXPECT_EQ(to_text(at("fe80::1%lo")), "[fe80::1%lo]:7");
  EXPECT_EQ(to_text(at("[fe80::1%lo]:9")), "[fe80::1%lo]:9");
  // No interface has this number, so the text shows the number.
  EXPECT_EQ(to_text(at("fe80::1%77777")), "[fe80::1%77777]:7");
  EXPECT_FALSE(at("fe80::1%lo") == at("fe80::1%77777"));
  EXPECT_NE(host_digest(at("fe80::1%lo")), host_digest(at("fe80::1%77777")));
  EXPECT_NE(address_pair_digest(at("fe80::1%lo"), at("fe80::2%lo")),
            address_pair_digest(at("fe80::1%lo"), at("fe80::2%77777")));
}

TEST(Address, AddressLikeTextIsNotAHostName) {
  EXPECT_EQ(host_name_in("fe80::1%nosuch"), "");
  EXPECT_EQ(host_name_in("fd00::x"), "");
  EXPECT_EQ(host_name_in("storage1:7"), "storage1");
}

TEST(Address, AllAddressesOfANameHaveThePort) {
  const std::vector<SocketAddress> all = resolve("localhost", 7);
  ASSERT_FALSE(all.empty());
  for (const SocketAddress& one : all) EXPECT_EQ(one.port(), 7);
}

TEST(Address, pair_digests_ignore_ports_but_depend_on_direction) {
  const auto at = [](const char* text) { return *parse_address(text, 1); };
  const std::uint32_t digest = address_pair_digest(at("10.0.0.1:5"), at("10.0.0.2:6"));
  EXPECT_EQ(digest, address_pair_digest(at("10.0.0.1:7"), at("10.0.0.2:8")));
  EXPECT_EQ(digest, address_pair_digest(at("::ffff:10.0.0.1"), at("10.0.0.2")));
  EXPECT_NE(digest, address_pair_digest(at("10.0.0.2"), at("10.0.0.1")));
  EXPECT_NE(digest, address_pair_digest(at("10.0.0.1"), at("10.0.0.3")));
}

}  // namespace
}  // namespace rtrs::net::socket_address_test
