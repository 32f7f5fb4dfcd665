#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/test_client.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::client_unmap_test {
namespace {

using namespace wire::linux_errno;
using namespace test;

std::uint32_t closed_id(const Client& client) {
  return wire::rnbd::parse_close(client.messages[0].header.span()).value.device_id;
}

TEST(ClientUnmap, SendsCloseForAnOpenDevice) {
  Client client;
  const DeviceHandle handle = client.opened("a", 4);
  client.step(UnmapRequested{handle});
  ASSERT_TRUE(client.only_message_is(MessageKind::close));
  EXPECT_EQ(closed_id(client), 4U);
  EXPECT_EQ(client.messages[0].direction, Direction::write);
  EXPECT_EQ(client.devices.gate(handle), Gate::refuse);
  EXPECT_TRUE(client.news.empty());
  client.answer_close();
  ASSERT_EQ(client.news.size(), 1U);
  EXPECT_EQ(client.news[0].state, DeviceState::unmapped);
  EXPECT_EQ(client.devices.mapped_count(), 0U);
}

TEST(ClientUnmap, R72UnmapTwiceClosesOnce) {
  Client client;
  const DeviceHandle handle = client.opened("a", 4);
  client.step(UnmapRequested{handle});
  client.step(UnmapRequested{handle});
  EXPECT_TRUE(client.only_message_is(MessageKind::close));
  client.answer_close();
  client.step(UnmapRequested{handle});
  EXPECT_TRUE(client.messages.empty());
  EXPECT_EQ(client.news.size(), 1U);
}

TEST(ClientUnmap, R72LostCloseStillEndsTheDevice) {
  Client client;
  const DeviceHandle handle = client.opened("a", 4);
  client.step(UnmapRequested{handle});
  client.step(LinkDown{});
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapping);
  EXPECT_TRUE(client.lose(MessageKind::close));
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapped);
}

TEST(ClientUnmap, WaitsForRequestsInFlight) {
  Client client;
  const DeviceHandle handle = client.opened("a", 4);
  client.begin(handle);
  client.step(UnmapRequested{handle});
  EXPECT_TRUE(client.messages.empty());
  EXPECT_EQ(client.io_done(handle, 0), Disposition::ok);
  EXPECT_TRUE(client.only_message_is(MessageKind::close));
}

TEST(ClientUnmap, NothingIsSentForADisconnectedDevice) {
  Client client;
  const DeviceHandle handle = client.opened("a", 4);
  client.step(LinkDown{});
  client.step(UnmapRequested{handle});
  EXPECT_TRUE(client.messages.empty());
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapped);
}

TEST(ClientUnmap, LinkLostBeforeTheCloseWasSentEndsWithoutIt) {
  Client client;
  const DeviceHandle handle = client.opened("a", 4);
  client.begin(handle);
  client.step(UnmapRequested{handle});
  client.step(LinkDown{});
  EXPECT_EQ(client.io_done(handle, 0, false), Disposition::fail);
  EXPECT_TRUE(client.messages.empty());
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapped);
}

TEST(ClientUnmap, LateOpenResponseIsAnsweredWithClose) {
  Client client;
  client.step(LinkUp{});
  const DeviceHandle handle = client.map("a");
  client.answer_info();
  client.step(UnmapRequested{handle});
  ASSERT_TRUE(client.only_message_is(MessageKind::open)) << "the OPEN is still unanswered";
  client.answer_open(disk(8));
  ASSERT_TRUE(client.only_message_is(MessageKind::close));
  EXPECT_EQ(closed_id(client), 8U);
  client.answer_close();
  ASSERT_EQ(client.news.size(), 1U);
  EXPECT_EQ(client.news[0].state, DeviceState::unmapped);
}

TEST(ClientUnmap, LateOpenErrorNeedsNoClose) {
  Client client;
  client.step(LinkUp{});
  const DeviceHandle handle = client.map("a");
  client.answer_info();
  client.step(UnmapRequested{handle});
  client.answer(MessageKind::open, kEnoent, {});
  EXPECT_TRUE(client.messages.empty());
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapped);
}

TEST(ClientUnmap, R80SameNameIsOpenedOnlyAfterItsCloseWasAnswered) {
  Client client;
  const DeviceHandle old = client.opened("a", 4);
  client.step(UnmapRequested{old});
  const DeviceHandle fresh = client.map("a");
  EXPECT_NE(fresh, old);
  EXPECT_TRUE(client.only_message_is(MessageKind::close));
  client.answer_close();
  EXPECT_TRUE(client.only_message_is(MessageKind::open));
  client.answer_open(disk(4));
  EXPECT_EQ(client.devices.gate(fresh), Gate::go);
  EXPECT_EQ(client.devices.gate(old), Gate::refuse);
}

TEST(ClientUnmap, CloseWaitsForTheOpenOfAnotherDevice) {
  Client client;
  const DeviceHandle a = client.opened("a", 0);
  client.map("b");
  client.step(UnmapRequested{a});
  EXPECT_TRUE(client.only_message_is(MessageKind::open));
  client.answer_open(disk(1));
  ASSERT_TRUE(client.only_message_is(MessageKind::close));
  EXPECT_EQ(closed_id(client), 0U);
}

TEST(ClientUnmap, R76DuplicateAndUnknownResponsesAreIgnored) {
  Client client;
  client.step(LinkUp{});
  client.map("a");
  client.answer_info();
  const std::uint64_t token = client.messages[0].token;
  client.answer_open(disk(8));
  EXPECT_EQ(client.news.size(), 1U);
  std::array<std::byte, wire::rnbd::kOpenRspBytes> response{};
  ASSERT_NE(encode(disk(9), response), 0U);
  client.step(MessageDone{token, true, 0, response});
  client.step(MessageDone{token, true, kEio, {}});
  client.step(MessageDone{0, true, kEio, {}});
  client.step(MessageDone{token + 1000, false, 0, {}});
  EXPECT_EQ(client.news.size(), 1U);
  EXPECT_TRUE(client.messages.empty());
}

TEST(ClientUnmap, UnmappedDeviceDoesNotReportItsLastRefusal) {
  Client client;
  const DeviceHandle handle = client.opened("a", 4);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  client.answer(MessageKind::open, kEperm, {});
  EXPECT_EQ(client.last_news().peer_errno, kEperm);
  client.step(UnmapRequested{handle});
  EXPECT_EQ(client.last_news().state, DeviceState::unmapped);
  EXPECT_EQ(client.last_news().peer_errno, 0);
}

TEST(ClientUnmap, R84HandlesAreNeverReused) {
  Client client;
  std::map<DeviceHandle, int> seen;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const DeviceHandle handle = client.opened("a", i);
    EXPECT_TRUE(seen.emplace(handle, 1).second);
    client.step(UnmapRequested{handle});
    client.answer_close();
  }
  EXPECT_EQ(client.devices.mapped_count(), 0U) << "R85: nothing is leaked";
}

TEST(ClientUnmap, UnmapInitWithoutLinkEndsAtOnce) {
  Client client;
  const DeviceHandle handle = client.map("a");
  client.step(UnmapRequested{handle});
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapped);
  client.step(LinkUp{});
  EXPECT_TRUE(client.messages.empty());
}

}  // namespace
}  // namespace rtrs::rnbd::client_unmap_test
