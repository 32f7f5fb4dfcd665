// Batched responses reach the client with one fabric call.
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
