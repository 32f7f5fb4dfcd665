#include "core/rnbd/client_devices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/rnbd/test_client.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::client_devices_test {
namespace {

using namespace wire::linux_errno;
using namespace test;
using wire::rnbd::AccessMode;

TEST(ClientDevices, MapSendsSessInfoThenOpen) {
  Client client;
  const DeviceHandle disk_a = client.map("a", AccessMode::read_only);
  EXPECT_TRUE(client.messages.empty()) << "no link yet";
  EXPECT_EQ(client.devices.state(disk_a), DeviceState::init);
  client.step(LinkUp{});
  ASSERT_TRUE(client.only_message_is(MessageKind::sess_info));
  EXPECT_EQ(client.messages[0].response_length, wire::rnbd::kSessInfoRspBytes);
  EXPECT_TRUE(wire::rnbd::parse_sess_info(client.messages[0].header.span()));
  client.answer_info();
  ASSERT_TRUE(client.only_message_is(MessageKind::open));
  EXPECT_EQ(client.messages[0].direction, Direction::read);
  EXPECT_EQ(client.messages[0].response_length, wire::rnbd::kOpenRspBytes);
  const auto open = wire::rnbd::parse_open(client.messages[0].header.span());
  EXPECT_EQ(open.value.device_name.view(), "a");
  EXPECT_EQ(open.value.access_mode, AccessMode::read_only);
  EXPECT_EQ(client.devices.gate(disk_a), Gate::hold);
  client.answer_open(disk(7, 4096));
  ASSERT_EQ(client.news.size(), 1U);
  EXPECT_EQ(client.news[0].state, DeviceState::open);
  EXPECT_EQ(client.news[0].geometry.nsectors, 4096U);
  EXPECT_EQ(client.devices.version(), 2);
  ASSERT_EQ(client.devices.gate(disk_a), Gate::go);
  EXPECT_EQ(client.begin(disk_a), 7U);
  EXPECT_EQ(client.io_done(disk_a, 0), Disposition::ok);
}

TEST(ClientDevices, MapRejectsInvalidRequests) {
  Client client;
  client.map("a");
  EXPECT_EQ(client.step(MapRequested{"a", AccessMode::read_only}).error, kEexist);
  EXPECT_EQ(client.step(MapRequested{"", AccessMode::read_only}).error, kEinval);
  EXPECT_EQ(client.step(MapRequested{std::string(255, 'x'), AccessMode::read_only}).error, kEinval);
  for (unsigned i = 1; i < kMaxClientDevices; ++i) client.map(std::to_string(i));
  EXPECT_EQ(client.step(MapRequested{"one more", AccessMode::read_only}).error, kEnospc);
}

TEST(ClientDevices, OpenErrorEndsTheMapWithTheServersErrno) {
  Client client;
  client.step(LinkUp{});
  const DeviceHandle handle = client.map("a");
  client.answer_info();
  client.answer(MessageKind::open, kEnoent, {});
  ASSERT_EQ(client.news.size(), 1U);
  EXPECT_EQ(client.news[0].state, DeviceState::unmapped);
  EXPECT_EQ(client.news[0].peer_errno, kEnoent);
  EXPECT_EQ(client.devices.state(handle), DeviceState::unmapped);
  EXPECT_EQ(client.devices.refusal_errno(handle), kEnodev);
  EXPECT_TRUE(client.messages.empty()) << "nothing to close";
}

TEST(ClientDevices, BadOpenResponseIsClosedAtTheServer) {
  Client client;
  client.step(LinkUp{});
  client.map("a");
  client.answer_info();
  auto response = disk(9);
  response.logical_block_size = 0;
  client.answer_open(response);
  ASSERT_TRUE(client.only_message_is(MessageKind::close));
  EXPECT_EQ(wire::rnbd::parse_close(client.messages[0].header.span()).value.device_id, 9U);
  client.answer_close();
  ASSERT_EQ(client.news.size(), 1U);
  EXPECT_EQ(client.news[0].state, DeviceState::unmapped);
  EXPECT_EQ(client.news[0].peer_errno, kEinval);
}

TEST(ClientDevices, IdOfADeviceClosedForABadResponseIsFree) {
  Client client;
  const DeviceHandle a = client.opened("a", 9);
  client.step(LinkUp{});
  client.answer_info();
  auto response = disk(9);
  response.logical_block_size = 0;
  ASSERT_TRUE(client.answer_open(response));
  ASSERT_TRUE(client.answer_close());
  EXPECT_EQ(client.devices.gate(a), Gate::refuse);
  const DeviceHandle b = client.map("b");
  ASSERT_TRUE(client.answer_open(disk(9)));
  EXPECT_EQ(client.devices.state(b), DeviceState::open);
}

TEST(ClientDevices, BadOpenResponseDoesNotCloseTheDeviceThatHasItsId) {
  Client client;
  const DeviceHandle a = client.opened("a", 9);
  client.map("b");
  auto response = disk(9);
  response.logical_block_size = 0;
  ASSERT_TRUE(client.answer_open(response));
  EXPECT_TRUE(client.only_message_is(MessageKind::sess_info)) << "another server may have answered";
  EXPECT_EQ(client.devices.gate(a), Gate::hold);
  ASSERT_TRUE(client.answer_info());
  ASSERT_TRUE(client.answer_open(disk(9)));
  ASSERT_TRUE(client.answer_open(disk(10)));
  EXPECT_EQ(client.devices.gate(a), Gate::go);
}

TEST(ClientDevices, R86OneOfflineAndOneOnlineNotificationPerOutage) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  client.step(LinkDown{});
  client.step(LinkDown{});
  ASSERT_EQ(client.news.size(), 1U);
  EXPECT_EQ(client.news[0].state, DeviceState::closed);
  client.step(LinkUp{});
  client.answer_info();
  client.answer_open(disk(0));
  ASSERT_EQ(client.news.size(), 2U);
  EXPECT_EQ(client.news[1].state, DeviceState::open);
  EXPECT_EQ(client.news[1].device, handle);
}

TEST(ClientDevices, L28RequestsAreLeftToTheTransportWhileTheLinkIsDown) {
  Client client;
  const DeviceHandle handle = client.opened("a", 5);
  client.step(LinkDown{});
  ASSERT_EQ(client.devices.gate(handle), Gate::go);
  EXPECT_EQ(client.begin(handle), 5U);
  client.step(LinkUp{});
  EXPECT_EQ(client.devices.gate(handle), Gate::hold);
  EXPECT_TRUE(client.messages.empty()) << "a request with an old id is still in flight";
  EXPECT_EQ(client.io_done(handle, 0), Disposition::ok);
  client.answer_info();
  client.answer_open(disk(6));
  ASSERT_EQ(client.devices.gate(handle), Gate::go);
  EXPECT_EQ(client.begin(handle), 6U);
}

TEST(ClientDevices, RequestWithAnOldIdIsResubmittedAfterTheReopen) {
  Client client;
  const DeviceHandle handle = client.opened("a", 5);
  client.begin(handle);
  client.begin(handle);
  client.step(LinkDown{});
  client.step(LinkUp{});
  EXPECT_EQ(client.io_done(handle, kEnotconn), Disposition::retry_after_remap);
  EXPECT_TRUE(client.messages.empty());
  EXPECT_EQ(client.io_done(handle, kEnotconn), Disposition::retry_after_remap);
  EXPECT_TRUE(client.only_message_is(MessageKind::sess_info));
  client.answer_info();
  EXPECT_EQ(client.devices.gate(handle), Gate::hold);
  client.answer_open(disk(0));
  EXPECT_EQ(client.devices.gate(handle), Gate::go);
}

TEST(ClientDevices, R75DeviceClosedByTheServerIsReopened) {
  Client client;
  const DeviceHandle a = client.opened("a", 0);
  const DeviceHandle b = client.opened("b", 1);
  client.begin(a);
  client.begin(b);
  EXPECT_EQ(client.io_done(a, kEnotconn), Disposition::retry_after_remap);
  EXPECT_EQ(client.devices.state(a), DeviceState::closed);
  EXPECT_EQ(client.devices.gate(b), Gate::hold);
  EXPECT_TRUE(client.messages.empty()) << "the request of b could reach another device";
  EXPECT_EQ(client.io_done(b, 0), Disposition::ok);
  client.answer_info();
  EXPECT_EQ(client.messages.size(), 2U);
  client.answer_open(disk(2));
  EXPECT_EQ(client.devices.gate(a), Gate::hold) << "the other OPEN is unanswered";
  client.answer_open(disk(1));
  EXPECT_EQ(client.begin(a), 2U);
  EXPECT_EQ(client.begin(b), 1U);
}

TEST(ClientDevices, OtherErrorsFailTheRequest) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  for (const int error : {kEio, kEnospc, kEopnotsupp, kEperm}) {
    client.begin(handle);
    EXPECT_EQ(client.io_done(handle, static_cast<std::uint16_t>(error)), Disposition::fail);
  }
  client.begin(handle);
  EXPECT_EQ(client.io_done(handle, 0, false), Disposition::fail);
  EXPECT_EQ(client.devices.state(handle), DeviceState::open);
  EXPECT_TRUE(client.messages.empty());
}

TEST(ClientDevices, UnnoticedServerRestartIsDetectedByItsIds) {
  Client client;
  const DeviceHandle a = client.opened("a", 0);
  const DeviceHandle b = client.map("b");
  EXPECT_EQ(client.devices.gate(a), Gate::hold);
  client.answer_open(disk(0));  // the id is that of device a, so this server does not know a
  EXPECT_EQ(client.devices.state(b), DeviceState::init);
  EXPECT_EQ(client.devices.gate(a), Gate::hold);
  client.answer_info();
  EXPECT_EQ(client.messages.size(), 2U);
  client.answer_open(disk(1));
  client.answer_open(disk(0));
  EXPECT_EQ(client.begin(a), 1U);
  EXPECT_EQ(client.begin(b), 0U);
}

TEST(ClientDevices, R83SizeIsThatOfTheLastOpen) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  const std::uint64_t grown = (std::uint64_t{1} << 40) + 16;
  client.answer_open(disk(0, grown));
  EXPECT_EQ(client.last_news().geometry.nsectors, grown);
  EXPECT_EQ(client.devices.geometry(handle)->nsectors, grown);
}

TEST(ClientDevices, R79DeviceReopensAfterALinkLossAtEveryStepOfARemap) {
  for (int cut = 0; cut < 4; ++cut) {
    for (const bool answered_after_cut : {false, true}) {
      Client client;
      const DeviceHandle handle = client.opened("a", 0);
      client.step(LinkDown{});
      if (cut >= 1) client.step(LinkUp{});
      if (cut >= 2) client.answer_info();
      if (cut >= 3) client.answer_open(disk(1));
      client.step(LinkDown{});
      if (answered_after_cut) {
        client.answer_info();
        client.answer_open(disk(2));
      }
      client.step(LinkUp{});
      while (client.answer_info() || client.answer_open(disk(3))) {
      }
      EXPECT_EQ(client.devices.state(handle), DeviceState::open) << cut;
      EXPECT_EQ(client.devices.gate(handle), Gate::go);
      EXPECT_EQ(client.begin(handle), 3U);
    }
  }
}

TEST(ClientDevices, L21AllDevicesAreOpenedWithoutWaitingForPermits) {
  Client client;
  for (unsigned i = 0; i < kMaxClientDevices; ++i) client.map("disk" + std::to_string(i));
  client.step(LinkUp{});
  client.answer_info();
  EXPECT_EQ(client.messages.size(), kMaxClientDevices);
  client.step(LinkDown{});
  client.step(LinkUp{});
  EXPECT_EQ(client.messages.size(), kMaxClientDevices) << "the first OPENs are still unanswered";
  for (unsigned i = 0; i < kMaxClientDevices; ++i) EXPECT_TRUE(client.answer_open(disk(i)));
  client.answer_info();
  for (unsigned i = 0; i < kMaxClientDevices; ++i) EXPECT_TRUE(client.answer_open(disk(i)));
  const auto open = std::count_if(client.news.begin(), client.news.end(), [](const DeviceChanged& change) {
    return change.state == DeviceState::open;
  });
  EXPECT_EQ(open, kMaxClientDevices);
}

TEST(ClientDevices, ErrorsFromBeforeTheLinkLossAreIgnored) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.step(LinkUp{});
  ASSERT_TRUE(client.answer(MessageKind::sess_info, kEio, {}));
  EXPECT_EQ(client.devices.gate(handle), Gate::hold);
  ASSERT_TRUE(client.answer_info());
  client.step(LinkUp{});
  ASSERT_TRUE(client.answer(MessageKind::open, kEnoent, {}));
  EXPECT_EQ(client.devices.gate(handle), Gate::hold);
  ASSERT_TRUE(client.answer_info());
  ASSERT_TRUE(client.answer_open(disk(0)));
  EXPECT_EQ(client.devices.state(handle), DeviceState::open);
}

TEST(ClientDevices, R77UndeliveredMessageIsResentOnRetryDue) {
  for (const MessageKind kind : {MessageKind::sess_info, MessageKind::open}) {
    Client client;
    client.step(LinkUp{});
    const DeviceHandle handle = client.map("a");
    if (kind == MessageKind::open) client.answer_info();
    ASSERT_TRUE(client.lose(kind));
    EXPECT_TRUE(client.devices.retry_wanted());
    EXPECT_TRUE(client.messages.empty());
    client.step(RetryDue{});
    EXPECT_FALSE(client.devices.retry_wanted());
    client.answer_info();
    EXPECT_TRUE(client.answer_open(disk(0)));
    EXPECT_EQ(client.devices.state(handle), DeviceState::open);
  }
}

TEST(ClientDevices, R78UndeliveredOpenIsResentWhenTheLinkIsUp) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  client.step(LinkDown{});
  EXPECT_EQ(client.devices.gate(handle), Gate::hold);
  client.lose(MessageKind::open);
  // The IO waits for queue_timeout, as it would without the OPEN.
  EXPECT_EQ(client.devices.gate(handle), Gate::hold);
  EXPECT_TRUE(client.messages.empty());
  client.step(LinkUp{});
  client.answer_info();
  client.answer_open(disk(0));
  EXPECT_EQ(client.devices.gate(handle), Gate::go);
}

TEST(ClientDevices, UndeliveredOpenInvalidatesEveryId) {
  Client client;
  const DeviceHandle a = client.opened("a", 1);
  client.map("b");
  client.step(LinkDown{});
  client.lose(MessageKind::open);  // a new server may have assigned the id of a to b
  EXPECT_EQ(client.devices.gate(a), Gate::hold);
  client.step(LinkUp{});
  client.answer_info();
  EXPECT_EQ(client.messages.size(), 2U);
}

}  // namespace
}  // namespace rtrs::rnbd::client_devices_test
