#include "backends/platform/address/address_list.hpp"

#include <gtest/gtest.h>

namespace rtrs::net::address_list_test {
namespace {

std::vector<SocketAddress> list(std::initializer_list<const char*> texts) {
  std::vector<SocketAddress> result;
  for (const char* text : texts) result.push_back(*parse_address(text, 7));
  return result;
}

TEST(AddressList, FamiliesAlternateAndTheFirstAddressStaysFirst) {
  EXPECT_EQ(in_turn(list({"fd00::1", "fd00::2", "fd00::3", "10.0.0.1", "10.0.0.2"})),
            list({"fd00::1", "10.0.0.1", "fd00::2", "10.0.0.2", "fd00::3"}));
  EXPECT_EQ(in_turn(list({"10.0.0.1", "fd00::1", "fd00::2"})), list({"10.0.0.1", "fd00::1", "fd00::2"}));
  EXPECT_TRUE(in_turn({}).empty());
}

TEST(AddressList, EachAddressOccursOnce) {
  EXPECT_EQ(in_turn(list({"10.0.0.1", "10.0.0.2", "10.0.0.1", "::ffff:10.0.0.2"})),
            list({"10.0.0.1", "10.0.0.2"}));
}

TEST(AddressList, LongListsAreTruncated) {
  std::vector<SocketAddress> many;
  for (int i = 0; i < 200; ++i) many.push_back(*parse_address("10.0.0." + std::to_string(i), 7));
  EXPECT_EQ(in_turn(many).size(), kMaxAddresses);
}

TEST(AddressList, KnownAddressesKeepTheirOrder) {
  EXPECT_EQ(keep_known_order(list({"10.0.0.1", "10.0.0.2"}), list({"10.0.0.2", "10.0.0.1"})),
            list({"10.0.0.1", "10.0.0.2"}));
  EXPECT_EQ(keep_known_order(list({"10.0.0.1", "10.0.0.2"}), list({"10.0.0.9", "10.0.0.2"})),
            list({"10.0.0.2", "10.0.0.9"}));
}

}  // namespace
}  // namespace rtrs::net::address_list_test
