// Tests the decisions of the supervisor while running processes are found one by one.
#include <gtest/gtest.h>

#include <string>

#include "tools/lib/control/mapping/supervisor.hpp"

namespace rtrs::mapping::supervisor_found_test {
namespace {

TEST(SupervisorFound, NoProcessStartsUntilAllRunningOnesAreFound) {
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

// The desired state was lost, and the process has mapped more devices than a session may have.
TEST(SupervisorFound, ExcessDevicesAreNotAdopted) {
  Supervisor::Options options;
  options.ends_unwanted_processes = false;
  Supervisor machine({}, options);
  SessionWish wish;
  wish.paths = {"10.0.0.2"};
  machine.on(Found{"s", wish}, 0);
  Answers answers{"s", {}};
  for (std::size_t i = 0; i <= kMaxDevices; ++i) answers.devices.push_back(std::to_string(i));
  machine.on(answers, 0);
  const auto& devices = machine.sessions().at("s").devices;
  EXPECT_EQ(devices.size(), kMaxDevices);
  EXPECT_TRUE(devices.contains("0"));
  EXPECT_FALSE(devices.contains(std::to_string(kMaxDevices)));
}

}  // namespace
}  // namespace rtrs::mapping::supervisor_found_test
