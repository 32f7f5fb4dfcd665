#include "tools/urtrs-fs/block_numbers.hpp"

#include <gtest/gtest.h>

namespace rtrs::fs_tool::block_numbers_test {
namespace {

TEST(BlockNumbers, DevicesKeepTheirNumberAndNewOnesGetTheLowestFreeOne) {
  BlockNumbers numbers;
  numbers.set({{"a", 0}, {"a", 1}, {"b", 0}});
  EXPECT_EQ(numbers.number_of({"a", 0}), 0U);
  EXPECT_EQ(numbers.number_of({"a", 1}), 1U);
  EXPECT_EQ(numbers.number_of({"b", 0}), 2U);
  numbers.set({{"a", 1}, {"b", 0}});
  EXPECT_EQ(numbers.number_of({"a", 0}), std::nullopt);
  EXPECT_EQ(numbers.device_of(0), std::nullopt);
  numbers.set({{"a", 1}, {"aa", 0}, {"aa", 1}, {"b", 0}});
  EXPECT_EQ(numbers.device_of(0), (BlockNumbers::Device{"aa", 0}));
  EXPECT_EQ(numbers.device_of(1), (BlockNumbers::Device{"a", 1}));
  EXPECT_EQ(numbers.device_of(2), (BlockNumbers::Device{"b", 0}));
  EXPECT_EQ(numbers.device_of(3), (BlockNumbers::Device{"aa", 1}));
  EXPECT_EQ(numbers.devices_of("aa"), (std::set<BlockNumbers::Device>{{"aa", 0}, {"aa", 1}}));
  EXPECT_TRUE(numbers.devices_of("c").empty());
}

TEST(BlockNumbers, BlockPathsAreParsed) {
  const auto deep = block_path("devices/virtual/block/rnbd12/rnbd/state");
  ASSERT_TRUE(deep);
  EXPECT_EQ(deep->before, "devices/virtual/block/");
  EXPECT_EQ(deep->number, 12U);
  EXPECT_EQ(deep->behind, "/rnbd/state");
  EXPECT_EQ(block_path("block/rnbd0")->behind, "");
  for (const char* path : {"block", "block/", "block/rnbd", "block/rnbdx", "block/rnbd01", "block/rnbd-1",
                           "block/sda", "class/rnbd0", "block/rnbd99999999999"})
    EXPECT_FALSE(block_path(path)) << path;
}

}  // namespace
}  // namespace rtrs::fs_tool::block_numbers_test
