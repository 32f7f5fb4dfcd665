#include "tools/urtrs/doctor/rdma_lines.hpp"

#include <gtest/gtest.h>

namespace rtrs::admin::rdma_lines_test {
namespace {

using probe::Line;

probe::Lines some() {
  return {{.check = "kernel", .what = "6.12"},
          {.part = Line::Part::test,
           .device = "mlx5_0",
           .check = "write",
           .grade = Line::Grade::failed,
           .what = "no completion",
           .remedy = "report it"},
          {.part = Line::Part::measurement,
           .device = "mlx5_0",
           .check = "binding",
           .what = "1.5 us",
           .number = 1.5,
           .unit = "us"}};
}

TEST(RdmaLines, EachCheckIsARowWithItsRemedyBelow) {
  const auto text = render(rdma_checks(some()), {}, 1);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("failed"), std::string::npos) << *text;
  EXPECT_NE(text->find("`- report it\n"), std::string::npos) << *text;
}

TEST(RdmaLines, JsonHasNumbersAndUnits) {
  Options options;
  options.format = Format::json;
  const auto text = render(rdma_checks(some()), options, 1);
  ASSERT_TRUE(text);
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["checks"][2]["number"], 1.5);
  EXPECT_EQ(json["checks"][2]["unit"], "us");
  EXPECT_EQ(json["checks"][1]["part"], "test");
  EXPECT_FALSE(json["checks"][0].contains("number"));
}

TEST(RdmaLines, AnyFailedDetectsAFailedCheck) {
  EXPECT_TRUE(any_failed(some()));
  EXPECT_FALSE(any_failed(probe::Lines{{.check = "kernel", .grade = Line::Grade::absent, .what = "none"}}));
}

}  // namespace
}  // namespace rtrs::admin::rdma_lines_test
