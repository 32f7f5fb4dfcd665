// Tests a Map that does not succeed, because the device is unmapped in the meantime or the process refuses
// it.
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/lib/control/mapping/supervisor.hpp"

namespace rtrs::mapping::supervisor_cancel_test {
namespace {

class SupervisorCancel : public ::testing::Test {
 protected:
  Actions ask(Ticket ticket) {
    SessionWish wish;
    wish.paths = {"10.0.0.2"};
    return machine_.on(DeviceMapRequested{"s", wish, "a", {}, ticket}, 0);
  }
  Actions on(const Input& input) { return machine_.on(input, 0); }

  Supervisor machine_{{}, {}};
};

void expect_done(const Action& action, Ticket ticket, int error) {
  const auto* const done = std::get_if<Done>(&action);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->ticket, ticket);
  EXPECT_EQ(done->error, error);
}

TEST_F(SupervisorCancel, UnmapBeforeTheProcessAnswersCancelsTheMap) {
  ask(1);
  Actions told = on(DeviceUnmapRequested{"s", "a", false, 2});
  ASSERT_EQ(told.size(), 1U) << "a starting process may have mapped it";
  expect_done(told[0], 1, ECANCELED);
  told = on(Answers{"s", {}});
  ASSERT_EQ(told.size(), 2U);
  expect_done(told[0], 2, 0);
  EXPECT_TRUE(std::holds_alternative<End>(told[1]));
}

TEST_F(SupervisorCancel, UnmapDuringTheMapCancelsIt) {
  ask(1);
  on(Answers{"s", {}});
  Actions told = on(DeviceUnmapRequested{"s", "a", false, 2});
  ASSERT_EQ(told.size(), 2U);
  expect_done(told[0], 1, ECANCELED);
  ASSERT_TRUE(std::holds_alternative<Cancel>(told[1]));
  EXPECT_EQ(std::get<Cancel>(told[1]).session, "s");
  EXPECT_EQ(std::get<Cancel>(told[1]).device, "a");
  told = ask(3);
  ASSERT_EQ(told.size(), 1U);
  expect_done(told[0], 3, EBUSY);
  told = on(DeviceUnmapRequested{"s", "a", false, 4});
  ASSERT_EQ(told.size(), 1U);
  expect_done(told[0], 4, EALREADY);
  told = on(Mapped{"s", "a", ECANCELED});
  ASSERT_EQ(told.size(), 2U);
  expect_done(told[0], 2, 0);
  EXPECT_TRUE(std::holds_alternative<End>(told[1]));
}

TEST_F(SupervisorCancel, CancelThatComesTooLateUnmapsTheDevice) {
  ask(1);
  on(Answers{"s", {}});
  on(DeviceUnmapRequested{"s", "a", false, 2});
  Actions told = on(Mapped{"s", "a", 0});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Unmap>(told[0]));
  told = on(Unmapped{"s", "a", ENOENT});
  ASSERT_EQ(told.size(), 2U) << "never saved, so there is nothing to take out of the file";
  expect_done(told[0], 2, 0);
}

// The state file contains a device whose server is down. No request waits for the device.
TEST(SupervisorCancelRestored, RetriedDeviceIsUnmappedAtOnce) {
  SessionWish wish;
  wish.paths = {"10.0.0.2"};
  wish.devices["a"];
  Supervisor machine({{"s", wish}}, {});
  machine.on(Tick{}, 0);
  machine.on(Answers{"s", {}}, 0);
  Actions told = machine.on(DeviceUnmapRequested{"s", "a", false, 2}, 0);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Save>(told[0])) << "saved first";
  told = machine.on(Saved{}, 0);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Cancel>(told[0]));
  told = machine.on(Mapped{"s", "a", ECANCELED}, 0);
  ASSERT_EQ(told.size(), 2U);
  expect_done(told[0], 2, 0);
  EXPECT_TRUE(machine.wishes().empty());
}

// A process that was found running has mapped a device that is not in the desired state. A user then requests
// this device in another mode.
TEST(SupervisorRefused, UnwishedDeviceIsUnmappedAfterARefusedMap) {
  SessionWish wish;
  wish.paths = {"10.0.0.2"};
  wish.devices["b"];
  Supervisor machine({{"s", wish}}, {});
  machine.on(Found{"s"}, 0);
  machine.on(DeviceMapRequested{"s", wish, "a", {}, 1}, 0);
  Actions told = machine.on(Answers{"s", {"a", "b"}}, 0);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Map>(told[0]));
  told = machine.on(Mapped{"s", "a", EBUSY}, 0);
  ASSERT_EQ(told.size(), 2U);
  expect_done(told[0], 1, EBUSY);
  EXPECT_TRUE(std::holds_alternative<Unmap>(told[1]));
}

}  // namespace
}  // namespace rtrs::mapping::supervisor_cancel_test
