// Checks that responses which are ready together are posted with one call of the fabric.
#include <gtest/gtest.h>

#include "conformance/bench/pair.hpp"

namespace rtrs::bench::response_batch_test {
namespace {

TEST(ResponseBatch, ResponsesThatAreReadyTogetherTakeOneFabricCall) {
  for (const bool recorded : {false, true}) {
    Pair pair(2, recorded);
    ASSERT_TRUE(pair.ready(2));
    EXPECT_EQ(pair.many(32), 1U);
    EXPECT_TRUE(pair.one(Direction::read, 4096));
    EXPECT_EQ(pair.many(1), 1U);
  }
}

}  // namespace
}  // namespace rtrs::bench::response_batch_test
