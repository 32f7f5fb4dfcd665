// Tests that the table of device reasons is complete, uniform, and equal to docs/reasons.md.
#include "core/rnbd/device_reasons.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::device_reasons_test {
namespace {

using namespace wire::linux_errno;

TEST(DeviceReasons, EveryReasonHasItsTextsAndIsInTheDocs) {
  std::ostringstream page;
  page << std::ifstream(URTRS_DOCS "/reasons.md").rdbuf();
  std::set<std::string> codes;
  for (std::size_t i = 1; i < kDeviceReasonCount; ++i) {
    const DeviceReasonText& text = text_of(static_cast<DeviceReason>(i));
    EXPECT_TRUE(codes.insert(text.code).second) << text.code;
    const bool fails = static_cast<DeviceReason>(i) != DeviceReason::grown;
    EXPECT_EQ(text.linux_errno != 0, fails) << text.code;
    for (const std::string_view part : {std::string_view(text.sentence), std::string_view(text.hint)}) {
      ASSERT_FALSE(part.empty()) << text.code;
      EXPECT_NE(part.back(), '.') << text.code;
      EXPECT_EQ(part.find_first_of("|\n\""), std::string_view::npos) << text.code;
    }
    const std::string row = "- `" + std::string(text.code) + (text.may_pass ? "`, temporary: **" : "`: **") +
                            text.sentence + "**: " + text.hint + "\n";
    EXPECT_NE(page.str().find(row), std::string::npos) << row;
  }
}

TEST(DeviceReasons, ErrnosOfAServerWithoutItsDiskMayBeTemporary) {
  for (const int error : {kEnoent, kEacces, kEbusy, kEnodev, kEnxio, kEio, kEagain, kEnomem})
    EXPECT_TRUE(may_pass(static_cast<std::uint16_t>(error))) << error;
  for (const int error : {0, kEperm, kEinval, kErofs, kEnospc, kEnotconn, kEopnotsupp})
    EXPECT_FALSE(may_pass(static_cast<std::uint16_t>(error))) << error;
}

TEST(DeviceReasons, FirstOpenReportsNoChange) {
  Geometry disk;
  disk.nsectors = 1024;
  EXPECT_EQ(reason_of_change({}, disk), DeviceReason::none);
  EXPECT_EQ(reason_of_change(disk, disk), DeviceReason::none);
}

TEST(DeviceReasons, ChangedBlockSizeTakesPrecedenceOverChangedSize) {
  Geometry before;
  before.nsectors = 1024;
  Geometry now = before;
  now.nsectors = 512;
  EXPECT_EQ(reason_of_change(before, now), DeviceReason::shrunk);
  EXPECT_EQ(reason_of_change(now, before), DeviceReason::grown);
  now.logical_block_size = 4096;
  EXPECT_EQ(reason_of_change(before, now), DeviceReason::block_size_changed);
}

}  // namespace
}  // namespace rtrs::rnbd::device_reasons_test
