// Checks that the table of limits is complete and uniform, and that its values are allowed by the protocol.
#include "tools/lib/control/limits/limits.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace rtrs::tools::limits_test {
namespace {

std::string page(const char* name) {
  std::stringstream whole;
  whole << std::ifstream(std::string(URTRS_DOCS) + "/" + name).rdbuf();
  return whole.str();
}

TEST(Limits, NamesAreUniqueAndComplete) {
  std::set<std::string> names;
  for (const Limit& one : limits()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name << " is there twice";
    EXPECT_EQ(find_limit(one.name), &one);
    EXPECT_EQ(std::string(one.name).find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos);
    EXPECT_STRNE(one.what, "");
    EXPECT_STRNE(one.beyond, "");
  }
  EXPECT_EQ(find_limit("nonsense"), nullptr);
}

TEST(Limits, LimitWithoutASettingIsAtItsMaximum) {
  for (const Limit& one : limits()) {
    EXPECT_GE(one.most, one.value) << one.name;
    if (*one.setting == '\0') {
      EXPECT_EQ(one.most, one.value) << one.name;
    }
    EXPECT_TRUE(one.protocol == 0 || one.most <= one.protocol) << one.name;
  }
}

TEST(Limits, ProtocolLimitsMatchTheDocument) {
  const std::string protocol = page("protocol.md");
  EXPECT_NE(protocol.find("| MAX_PATHS_NUM | " + std::to_string(find_limit("paths")->protocol) + " |"),
            std::string::npos);
  EXPECT_NE(
      protocol.find("| greatest cid_num | " + std::to_string(find_limit("connections")->protocol) + " |"),
      std::string::npos);
  EXPECT_NE(
      protocol.find("| MAX_SESS_QUEUE_DEPTH | " + std::to_string(find_limit("requests")->protocol) + " |"),
      std::string::npos);
}

}  // namespace
}  // namespace rtrs::tools::limits_test
