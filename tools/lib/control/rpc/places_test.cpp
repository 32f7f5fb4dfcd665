// Tests which connection is closed for a new client.
#include "tools/lib/control/rpc/places.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace rtrs::rpc::places_test {
namespace {

using Places = std::vector<Place>;

TEST(RpcPlaces, LongestIdleIsEvicted) {
  const Places places{{Rank::member, false, 5}, {Rank::member, false, 2}, {Rank::member, true, 1}};
  EXPECT_EQ(gives_way(places, Rank::member), 1U);
}

TEST(RpcPlaces, BusyClientIsKept) {
  EXPECT_FALSE(gives_way(Places{{Rank::owner, true, 1}, {Rank::owner, true, 2}}, Rank::owner));
  EXPECT_FALSE(gives_way(Places{{Rank::stranger, true, 1}}, Rank::stranger));
}

TEST(RpcPlaces, LowestRankIsEvictedFirst) {
  const Places places{{Rank::owner, false, 1}, {Rank::member, false, 2}, {Rank::stranger, false, 3}};
  EXPECT_EQ(gives_way(places, Rank::owner), 2U);
}

TEST(RpcPlaces, LowerRankEvictsNoClient) {
  EXPECT_FALSE(gives_way(Places{{Rank::owner, false, 1}, {Rank::member, false, 2}}, Rank::stranger));
  EXPECT_EQ(gives_way(Places{{Rank::owner, false, 1}, {Rank::member, false, 2}}, Rank::member), 1U);
}

TEST(RpcPlaces, BusyStrangersAreEvictedByHigherRanks) {
  const Places places{{Rank::stranger, true, 7}, {Rank::stranger, true, 3}, {Rank::owner, true, 1}};
  EXPECT_EQ(gives_way(places, Rank::owner), 1U);
  EXPECT_EQ(gives_way(places, Rank::member), 1U);
  EXPECT_FALSE(gives_way(places, Rank::stranger));
}

TEST(RpcPlaces, NoConnectionMeansNoPlace) {
  EXPECT_FALSE(gives_way({}, Rank::owner));
}

}  // namespace
}  // namespace rtrs::rpc::places_test
