// What is decided while the processes that run already are found, one after the other.
#include <gtest/gtest.h>

#include "tools/lib/mapping/supervisor.hpp"

namespace rtrs::mapping {
namespace {

TEST(SupervisorFound, NothingIsStartedBeforeAllThatRunIsFound) {
  SessionWish wish;
  wish.paths = {"10.0.0.2"};
  wish.devices["a"];
  Supervisor machine({{"s", wish}, {"t", wish}, {"u", wish}}, {});
  EXPECT_TRUE(machine.on(Found{"s"}, 0).empty());
  EXPECT_TRUE(machine.on(Found{"t"}, 0).empty());
  const Actions after = machine.on(Tick{}, 0);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(std::get<Start>(after[0]).session, "u");
  EXPECT_TRUE(machine.on(Answers{"t", {"a"}}, 0).empty()) << "it has what is wished";
}

}  // namespace
}  // namespace rtrs::mapping
