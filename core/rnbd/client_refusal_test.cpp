// Tests devices that the server refused or removed too often, and how they are reopened.
#include <gtest/gtest.h>

#include "core/rnbd/test_client.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::client_refusal_test {
namespace {

using namespace test;
using namespace wire::linux_errno;

// Lets IO find the device closed kMaxFutileReopens + 1 times, so that the client gives up.
void give_up(Client& client, DeviceHandle handle) {
  for (std::uint32_t i = 1; i <= kMaxFutileReopens; ++i) {
    client.begin(handle);
    EXPECT_EQ(client.io_done(handle, kEnotconn), Disposition::retry_after_remap);
    ASSERT_TRUE(client.answer_info());
    ASSERT_TRUE(client.answer_open(disk(i)));
  }
  client.begin(handle);
  EXPECT_EQ(client.io_done(handle, kEnotconn), Disposition::fail);
  EXPECT_EQ(client.devices.gate(handle), Gate::refuse);
  EXPECT_EQ(client.devices.refusal_errno(handle), kEnotconn);
}

TEST(ClientRefusal, RepeatedNotConnectedFailsIoUntilRemap) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  give_up(client, handle);
  client.step(RemapRequested{handle});
  EXPECT_TRUE(client.answer_open(disk(9)));
  EXPECT_EQ(client.devices.gate(handle), Gate::go);
}

TEST(ClientRefusal, DeviceGivenUpIsReopenedAsOftenAsBefore) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  give_up(client, handle);
  client.step(ReopenDue{});
  EXPECT_TRUE(client.answer_open(disk(9)));
  give_up(client, handle);
  client.step(RemapRequested{handle});
  EXPECT_TRUE(client.answer_open(disk(9)));
  give_up(client, handle);
  client.step(LinkUp{});
  client.answer_info();
  EXPECT_TRUE(client.answer_open(disk(9)));
  give_up(client, handle);
}

TEST(ClientRefusal, RefusedDeviceStaysClosedUntilRemap) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  client.answer(MessageKind::open, kEperm, {});
  EXPECT_EQ(client.devices.state(handle), DeviceState::closed);
  EXPECT_EQ(client.devices.gate(handle), Gate::refuse);
  EXPECT_EQ(client.devices.refusal_errno(handle), kEperm);
  EXPECT_EQ(client.last_news().peer_errno, kEperm);
  client.step(RemapRequested{handle});
  EXPECT_TRUE(client.only_message_is(MessageKind::open));
  client.answer_open(disk(3));
  EXPECT_EQ(client.devices.gate(handle), Gate::go);
}

TEST(ClientRefusal, IoWaitsWhileTheReasonMayBeTemporary) {
  for (const std::uint16_t error :
       std::initializer_list<std::uint16_t>{kEnoent, kEacces, kEbusy, kEnodev, kEio}) {
    Client client;
    const DeviceHandle handle = client.opened("a", 0);
    client.step(LinkDown{});
    client.step(LinkUp{});
    client.answer_info();
    for (unsigned refusal = 0; refusal < 20; ++refusal) {
      client.answer(MessageKind::open, error, {});
      EXPECT_TRUE(client.devices.refused(handle)) << error;
      EXPECT_EQ(client.devices.gate(handle), Gate::hold) << error;
      EXPECT_EQ(client.devices.last_refusal(handle), error);
      ASSERT_TRUE(client.devices.reopen_wanted());
      client.step(ReopenDue{});
      EXPECT_EQ(client.devices.gate(handle), Gate::hold) << error;
      EXPECT_EQ(client.devices.last_refusal(handle), error) << "unchanged during the retry";
    }
    client.answer_open(disk(3));
    EXPECT_EQ(client.devices.gate(handle), Gate::go) << error;
    EXPECT_EQ(client.devices.last_refusal(handle), 0);
  }
}

TEST(ClientRefusal, UnavailableDeviceDoesNotDelayOthers) {
  Client client;
  const DeviceHandle absent = client.opened("a", 0);
  const DeviceHandle there = client.opened("b", 1);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  client.answer(MessageKind::open, kEnoent, {});
  client.answer_open(disk(3));
  EXPECT_EQ(client.devices.gate(absent), Gate::hold);
  EXPECT_EQ(client.devices.gate(there), Gate::go);
}

TEST(ClientRefusal, DeviceNeverOpenedIsUnmappedByTheFirstRefusal) {
  Client client;
  client.step(LinkUp{});
  const DeviceHandle handle = client.map("a");
  client.answer_info();
  client.answer(MessageKind::open, kEnoent, {});
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapped);
  EXPECT_EQ(client.devices.gate(handle), Gate::refuse);
  EXPECT_EQ(client.devices.last_refusal(handle), 0);
}

TEST(ClientRefusal, ReopenPauseGrowsUntilADeviceOpens) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  for (unsigned outage = 0; outage < 2; ++outage) {
    client.step(LinkDown{});
    client.step(LinkUp{});
    client.answer_info();
    for (const unsigned pause : {1U, 2U, 4U, 8U, 15U, 15U, 15U}) {
      client.answer(MessageKind::open, kEperm, {});
      ASSERT_TRUE(client.devices.reopen_wanted());
      EXPECT_EQ(client.devices.reopen_pause_s(), pause);
      client.step(ReopenDue{});
    }
    client.answer_open(disk(3));
    EXPECT_EQ(client.devices.gate(handle), Gate::go);
    EXPECT_EQ(client.devices.reopen_pause_s(), 1U);
  }
}

// Causes more refusals than a narrow counter or shift can represent.
TEST(ClientRefusal, ReopenPauseStaysAtItsMaximum) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  for (unsigned refusals = 1; refusals <= 600; ++refusals) {
    client.news.clear();
    client.answer(MessageKind::open, kEperm, {});
    ASSERT_TRUE(client.devices.reopen_wanted()) << refusals;
    ASSERT_EQ(client.devices.reopen_pause_s(), refusals > 4 ? 15U : 1U << (refusals - 1)) << refusals;
    ASSERT_EQ(client.devices.broken_invariant(), nullptr) << refusals;
    client.step(ReopenDue{});
  }
  client.answer_open(disk(3));
  EXPECT_EQ(client.devices.gate(handle), Gate::go);
}

TEST(ClientRefusal, RefusedDeviceIsReopenedOnReopenDue) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  EXPECT_FALSE(client.devices.reopen_wanted());
  client.step(ReopenDue{});
  EXPECT_EQ(client.devices.gate(handle), Gate::go);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  client.answer(MessageKind::open, kEperm, {});
  EXPECT_TRUE(client.devices.reopen_wanted());
  EXPECT_TRUE(client.devices.refused(handle));
  client.step(ReopenDue{});
  EXPECT_FALSE(client.devices.refused(handle));
  EXPECT_TRUE(client.only_message_is(MessageKind::open));
  EXPECT_FALSE(client.devices.reopen_wanted());
  client.answer(MessageKind::open, kEperm, {});
  client.step(LinkDown{});
  EXPECT_FALSE(client.devices.reopen_wanted());
  client.step(LinkUp{});
  client.answer_info();
  client.answer_open(disk(3));
  EXPECT_FALSE(client.devices.reopen_wanted());
  EXPECT_EQ(client.devices.gate(handle), Gate::go);
}

}  // namespace
}  // namespace rtrs::rnbd::client_refusal_test
