// Tests which fields count as a difference between the responses of two servers.
#include "tools/lib/trace/workload/compare.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace rtrs::workload::compare_test {
namespace {

Asked opened(const wire::rnbd::OpenRsp& response) {
  Asked asked;
  asked.kind = Asked::Kind::open;
  asked.answered = true;
  asked.opened = response;
  return asked;
}

TEST(WorkloadCompare, ReportsFieldNameAndPosition) {
  wire::rnbd::OpenRsp response;
  response.nsectors = 2048;
  response.device_id = 7;
  response.instance = 1;
  Told told{true, 0, response, ""};
  told.opened->device_id = 8;
  told.opened->instance = 2;
  told.opened->features = 3;
  EXPECT_TRUE(compare(opened(response), told).empty()) << "fields specific to one server are not compared";
  told.opened->nsectors = 4096;
  told.opened->cache_policy = 2;
  const auto found = compare(opened(response), told);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].field, "nsectors");
  EXPECT_EQ(found[0].offset, 8U);
  EXPECT_EQ(found[0].length, 8U);
  EXPECT_EQ(found[0].recorded, "2048");
  EXPECT_EQ(found[0].told, "4096");
  EXPECT_EQ(found[1].field, "cache_policy");
  EXPECT_EQ(found[1].offset, 45U);
  EXPECT_EQ(found[1].length, 1U);
}

TEST(WorkloadCompare, ComparesEachFieldOfAnOpenResponse) {
  using wire::rnbd::OpenRsp;
  const std::pair<const char*, void (*)(OpenRsp&)> changes[] = {
      {"nsectors", [](OpenRsp& one) { ++one.nsectors; }},
      {"max_hw_sectors", [](OpenRsp& one) { ++one.max_hw_sectors; }},
      {"max_write_zeroes_sectors", [](OpenRsp& one) { ++one.max_write_zeroes_sectors; }},
      {"max_discard_sectors", [](OpenRsp& one) { ++one.max_discard_sectors; }},
      {"discard_granularity", [](OpenRsp& one) { ++one.discard_granularity; }},
      {"discard_alignment", [](OpenRsp& one) { ++one.discard_alignment; }},
      {"physical_block_size", [](OpenRsp& one) { ++one.physical_block_size; }},
      {"logical_block_size", [](OpenRsp& one) { ++one.logical_block_size; }},
      {"max_segments", [](OpenRsp& one) { ++one.max_segments; }},
      {"secure_discard", [](OpenRsp& one) { ++one.secure_discard; }},
      {"cache_policy", [](OpenRsp& one) { ++one.cache_policy; }}};
  for (const auto& [name, change] : changes) {
    Told told{true, 0, OpenRsp{}, ""};
    change(*told.opened);
    const auto found = compare(opened(OpenRsp{}), told);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].field, name);
    EXPECT_EQ(found[0].recorded, "0") << name;
    EXPECT_EQ(found[0].told, "1") << name;
  }
}

TEST(WorkloadCompare, ComparesErrnosAndMissingResponses) {
  Asked asked;
  asked.answered = true;
  EXPECT_TRUE(compare(asked, {true, 0, {}, ""}).empty());
  auto found = compare(asked, {true, EIO, {}, ""});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].field, "errno");
  EXPECT_EQ(found[0].recorded, "0");
  EXPECT_EQ(found[0].told, "5 (Input/output error)");
  found = compare(asked, {false, 0, {}, "no answer"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].field, "answer");
  EXPECT_EQ(found[0].told, "no answer");
  asked.peer_errno = EIO;
  EXPECT_TRUE(compare(asked, {true, EIO, {}, ""}).empty());
  asked.answered = false;
  EXPECT_TRUE(compare(asked, {true, 0, {}, ""}).empty()) << "there is nothing to compare with";
}

TEST(WorkloadCompare, RequestAsText) {
  Workload work;
  work.devices = {"disk"};
  Asked asked;
  asked.io.sector = 8;
  asked.io.size = 4096;
  EXPECT_EQ(words_of(work, asked).substr(0, 23), "READ 4096 B at sector 8") << words_of(work, asked);
  EXPECT_NE(words_of(work, asked).find("\"disk\""), std::string::npos) << words_of(work, asked);
  asked.kind = Asked::Kind::open;
  asked.mode = wire::rnbd::AccessMode::read_write;
  EXPECT_EQ(words_of(work, asked), "OPEN \"disk\" rw");
  asked.kind = Asked::Kind::close;
  EXPECT_EQ(words_of(work, asked), "CLOSE \"disk\"");
}

}  // namespace
}  // namespace rtrs::workload::compare_test
