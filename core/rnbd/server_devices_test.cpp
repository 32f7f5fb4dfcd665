#include "core/rnbd/server_devices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/rnbd/test_server_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::server_devices_test {
namespace {

using namespace wire::linux_errno;
using namespace test;
using Bytes = std::vector<std::byte>;
using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;

TEST(ServerDevices, SessInfoNegotiatesTheLowerVersion) {
  for (const int peer : {0, 1, 2, 3, 255}) {
    Session session;
    const auto message = encoded(wire::rnbd::SessInfo{static_cast<std::uint8_t>(peer)});
    const auto request = session.arrive(Direction::read, wire::rnbd::kSessInfoRspBytes, message);
    EXPECT_EQ(session.errno_of(request), 0);
    EXPECT_EQ(session.devices.version(), std::min(peer, 2));
    Bytes data(wire::rnbd::kSessInfoRspBytes);
    fill(session.answers[0], data);
    EXPECT_EQ(wire::rnbd::parse_sess_info_rsp(data).value.version, std::min(peer, 2));
  }
}

TEST(ServerDevices, R68ResponsesContainNoOldMemory) {
  Session session;
  session.arrive(Direction::read, 4096, open_message("disk", AccessMode::read_only));
  session.export_opened(0);
  Bytes data(4096, std::byte{0xa5});
  fill(session.answers[0], data);
  EXPECT_TRUE(wire::rnbd::parse_open_rsp(data));
  EXPECT_EQ(std::count(data.begin(), data.end(), std::byte{0xa5}), 0);
  for (std::size_t i = wire::rnbd::kOpenRspBytes - 10; i < data.size(); ++i)
    ASSERT_EQ(data[i], std::byte{0}) << i;
}

TEST(ServerDevices, OpenReportsTheGeometryOfTheExport) {
  Session session;
  // All values differ, so that swapped fields are detected.
  session.geometry = {.nsectors = 4096,
                      .logical_block_size = 4096,
                      .physical_block_size = 8192,
                      .max_hw_sectors = 3,
                      .max_segments = 4,
                      .max_discard_sectors = 5,
                      .max_write_zeroes_sectors = 6,
                      .discard_granularity = 7,
                      .discard_alignment = 8,
                      .write_cache = true,
                      .fua = true,
                      .features = 9};
  const auto request = session.open("disk");
  EXPECT_EQ(session.errno_of(request), Session::kUnanswered);
  EXPECT_EQ(session.opens[0].name, "disk");
  EXPECT_EQ(session.opens[0].mode, AccessMode::read_write);
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(request), 0);
  EXPECT_EQ(geometry_of(session.response()), session.geometry);
  EXPECT_EQ(session.response().device_id, 0U);
}

TEST(ServerDevices, OpenErrorsReachThePeerAndLeaveNoDevice) {
  Session session;
  for (const int error : {kEnoent, kEperm, 512, -1}) {
    const auto request = session.open("disk");
    session.export_opened(error);
    EXPECT_EQ(session.errno_of(request), to_wire_errno(error));
    EXPECT_EQ(session.devices.open_count(), 0U);
  }
  EXPECT_TRUE(session.closed.empty());
  EXPECT_TRUE(session.answers.empty());
}

TEST(ServerDevices, ExportWithInvalidGeometryIsClosed) {
  Session session;
  session.geometry.logical_block_size = 0;
  const auto request = session.open("disk");
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(request), kEio);
  ASSERT_EQ(session.closed.size(), 1U);
  EXPECT_EQ(session.closed[0], 100U);
}

TEST(ServerDevices, SecondOpenReturnsTheSameDevice) {
  Session session;
  const auto id = session.opened("disk", AccessMode::read_write);
  const auto again = session.open("disk", AccessMode::read_only);
  EXPECT_EQ(session.errno_of(again), 0);
  EXPECT_EQ(session.response().device_id, id);
  EXPECT_TRUE(session.opens.empty());
  EXPECT_NE(session.opened("other"), id);
}

TEST(ServerDevices, OpenSentTwiceWaitsForTheFirst) {
  Session session;
  const auto first = session.open("disk");
  const auto second = session.open("disk");
  ASSERT_EQ(session.opens.size(), 1U);
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(first), 0);
  ASSERT_EQ(session.answers.size(), 2U);
  EXPECT_EQ(session.answers[0].response.units, session.answers[1].response.units);
  EXPECT_EQ(session.errno_of(second), 0);
}

TEST(ServerDevices, L20ModeOfTheFirstOpenIsEnforced) {
  Session session;
  const auto id = session.opened("disk", AccessMode::read_only);
  EXPECT_EQ(session.errno_of(session.open("disk", AccessMode::read_write)), kEperm);
  EXPECT_EQ(session.errno_of(session.open("disk", AccessMode::migration)), kEperm);
  for (const Opcode opcode : {Opcode::write, Opcode::discard, Opcode::write_zeroes}) {
    EXPECT_EQ(session.errno_of(session.io(id, opcode)), kEperm);
  }
  EXPECT_TRUE(session.storage.empty());
  session.io(id, Opcode::read);
  session.io(id, Opcode::flush);
  EXPECT_EQ(session.storage.size(), 2U);
}

TEST(ServerDevices, L20LengthsOfEveryMessageAreChecked) {
  const std::vector<Header> messages{encoded(wire::rnbd::SessInfo{}),
                                     open_message("d", AccessMode::read_only), encoded(wire::rnbd::Close{0}),
                                     encoded(wire::rnbd::Io{})};
  for (const Header& message : messages) {
    // A 32-bit peer sends IO messages of 28 bytes.
    const std::size_t least = std::min<std::size_t>(message.size(), message == messages[3] ? 28 : 999);
    for (std::size_t length = 0; length < least; ++length) {
      for (const Direction direction : {Direction::read, Direction::write}) {
        Session session;
        const Bytes cut(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_EQ(session.errno_of(session.arrive(direction, 4096, cut)), kEinval) << length;
      }
    }
  }
}

TEST(ServerDevices, L20AnswersNeedRoom) {
  Session session;
  const auto info = encoded(wire::rnbd::SessInfo{});
  const auto open = open_message("disk", AccessMode::read_only);
  EXPECT_EQ(session.errno_of(session.arrive(Direction::read, 35, info)), kEinval);
  EXPECT_EQ(session.errno_of(session.arrive(Direction::write, 36, info)), kEinval);
  EXPECT_EQ(session.errno_of(session.arrive(Direction::read, 55, open)), kEinval);
  EXPECT_EQ(session.errno_of(session.arrive(Direction::write, 56, open)), kEinval);
  EXPECT_EQ(session.errno_of(session.arrive(Direction::read, 0, encoded(wire::rnbd::Close{0}))), kEinval);
  EXPECT_TRUE(session.opens.empty());
}

TEST(ServerDevices, L20MalformedOpenIsRefused) {
  Session session;
  Header unterminated = open_message("disk", AccessMode::read_only);
  std::fill(unterminated.begin() + 6, unterminated.end(), std::byte{'x'});
  EXPECT_EQ(session.errno_of(session.arrive(Direction::read, 56, unterminated)), kEinval);
  Header unknown_mode = open_message("disk", AccessMode::read_only);
  unknown_mode[4] = std::byte{3};
  EXPECT_EQ(session.errno_of(session.arrive(Direction::read, 56, unknown_mode)), kEinval);
  for (const int type : {1, 3, 6, 255}) {
    Bytes header(64);
    header[0] = static_cast<std::byte>(type);
    EXPECT_EQ(session.errno_of(session.arrive(Direction::read, 56, header)), kEinval) << type;
  }
  EXPECT_TRUE(session.opens.empty());
}

TEST(ServerDevices, CloseWaitsForRequestsInFlight) {
  Session session;
  const auto id = session.opened("disk");
  const auto write = session.io(id, Opcode::write);
  const auto close = session.close(id);
  const auto close_again = session.close(id);
  EXPECT_EQ(session.errno_of(close), Session::kUnanswered);
  EXPECT_TRUE(session.closed.empty());
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::write)), kEnotconn);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(write), 0);
  EXPECT_EQ(session.errno_of(close), 0);
  EXPECT_EQ(session.errno_of(close_again), 0);
  ASSERT_EQ(session.closed.size(), 1U);
  EXPECT_EQ(session.closed[0], 100U);
}

TEST(ServerDevices, CloseOfADeviceThatIsNotOpenSucceeds) {
  Session session;
  EXPECT_EQ(session.errno_of(session.close(0)), 0);
  EXPECT_EQ(session.errno_of(session.close(0xffffffff)), 0);
  session.open("disk");  // id 0, OPEN not answered yet
  EXPECT_EQ(session.errno_of(session.close(0)), 0);
  session.export_opened(0);
  EXPECT_EQ(session.devices.open_count(), 1U);
}

TEST(ServerDevices, OpenWaitsUntilTheSameNameIsClosed) {
  Session session;
  const auto id = session.opened("disk");
  session.io(id, Opcode::write);
  const auto close = session.close(id);
  const auto again = session.open("disk");
  const auto other = session.open("other");
  ASSERT_EQ(session.opens.size(), 1U) << "the access right of the old export is not free yet";
  EXPECT_EQ(session.opens[0].name, "other");
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(other), 0);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(close), 0);
  ASSERT_EQ(session.opens.size(), 1U);
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(again), 0);
  EXPECT_NE(session.response().device_id, id);
}

TEST(ServerDevices, R75IdsAreNeverReused) {
  Session session;
  const auto id = session.opened("disk");
  session.step(DeviceForceClosed{id});
  EXPECT_EQ(session.closed.size(), 1U);
  const auto other = session.opened("other");
  EXPECT_NE(other, id);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::write)), kEnotconn);
  EXPECT_TRUE(session.storage.empty());
  std::map<std::uint32_t, int> seen{{id, 1}, {other, 1}};
  for (int i = 0; i < 1000; ++i) {
    const auto next = session.opened("disk");
    EXPECT_TRUE(seen.emplace(next, 1).second) << next;
    session.close(next);
  }
}

TEST(ServerDevices, R75SlotsWithoutUnusedIdsAreRetired) {
  Session session(ServerOptions{0xffffff, 2});
  std::map<std::uint32_t, int> seen;
  for (unsigned i = 0; i < 2 * kMaxServerDevices; ++i) {
    const auto id = session.opened("disk");
    EXPECT_TRUE(seen.emplace(id, 1).second);
    session.close(id);
  }
  EXPECT_EQ(session.errno_of(session.open("disk")), kEnospc);
}

TEST(ServerDevices, R73ForceCloseWaitsForRequestsInFlight) {
  Session session;
  const auto id = session.opened("disk");
  const auto write = session.io(id, Opcode::write);
  session.step(DeviceForceClosed{id});
  EXPECT_TRUE(session.closed.empty());
  session.step(DeviceForceClosed{id});
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(write), 0);
  EXPECT_EQ(session.closed.size(), 1U);
  session.step(DeviceForceClosed{id});
  EXPECT_EQ(session.closed.size(), 1U);
}

TEST(ServerDevices, R74ForceCloseAndCloseAndSessionLossInEveryOrder) {
  std::vector<int> order{0, 1, 2, 3};
  do {
    Session session;
    const auto id = session.opened("disk");
    session.io(id, Opcode::write);
    std::uint64_t close = 0;
    for (const int what : order) {
      if (what == 0) close = session.close(id);
      if (what == 1) session.step(DeviceForceClosed{id});
      if (what == 2) session.step(SessionClosed{});
      if (what == 3) session.storage_done(0);
    }
    EXPECT_EQ(session.closed.size(), 1U);
    EXPECT_GE(session.errno_of(close), 0);
    EXPECT_EQ(session.drained, 1U);
    EXPECT_EQ(session.devices.unanswered(), 0U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(ServerDevices, ForceCloseWhileOpeningClosesTheDevice) {
  Session session;
  const auto open = session.open("disk");
  session.step(DeviceForceClosed{0});
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(open), kEnotconn);
  EXPECT_EQ(session.closed.size(), 1U);
}

TEST(ServerDevices, DeviceOpensAgainAfterForceCloseWhileOpening) {
  Session session;
  session.open("disk");
  session.step(DeviceForceClosed{0});
  session.export_opened(0);
  const auto again = session.open("disk");
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(again), 0);
}

TEST(ServerDevices, SessionLossClosesEverythingOnce) {
  Session session;
  for (unsigned i = 0; i < kMaxServerDevices; ++i) session.opened("disk" + std::to_string(i));
  EXPECT_EQ(session.errno_of(session.open("one more")), kEnospc);
  session.step(SessionClosed{});
  EXPECT_EQ(session.closed.size(), kMaxServerDevices);
  EXPECT_EQ(session.drained, 1U);
  session.step(SessionClosed{});
  EXPECT_EQ(session.drained, 1U);
}

TEST(ServerDevices, SessionLossWhileOpeningAndQueuedAnswersBoth) {
  Session session;
  const auto id = session.opened("disk");
  session.io(id, Opcode::write);
  session.step(DeviceForceClosed{id});
  const auto queued = session.open("disk");
  const auto opening = session.open("other");
  session.step(SessionClosed{});
  EXPECT_EQ(session.drained, 0U);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(queued), kEnotconn);
  session.export_opened(0);
  EXPECT_EQ(session.errno_of(opening), kEnotconn);
  EXPECT_EQ(session.closed.size(), 2U);
  EXPECT_EQ(session.drained, 1U);
}

TEST(ServerDevices, TablesAreBounded) {
  Session session;
  const auto id = session.opened("disk");
  for (unsigned i = 0; i < kMaxServerOperations; ++i) session.io(id, Opcode::write);
  EXPECT_EQ(session.storage.size(), kMaxServerOperations);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::write)), kEbusy);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::write)), Session::kUnanswered);
  while (!session.storage.empty()) session.storage_done(0);
  session.io(id, Opcode::write);
  for (unsigned i = 0; i < kMaxDeviceWaiters; ++i)
    EXPECT_EQ(session.errno_of(session.close(id)), Session::kUnanswered);
  EXPECT_EQ(session.errno_of(session.close(id)), kEbusy);
  session.storage_done(0);
  EXPECT_EQ(session.devices.unanswered(), 0U);
}

TEST(ServerDevices, OpensThatWaitForOneDeviceAreBounded) {
  Session session;
  for (unsigned i = 0; i < kMaxDeviceWaiters; ++i)
    EXPECT_EQ(session.errno_of(session.open("disk")), Session::kUnanswered);
  EXPECT_EQ(session.errno_of(session.open("disk")), kEbusy);
  session.export_opened(0);
  EXPECT_EQ(session.devices.unanswered(), 0U);
}

TEST(ServerDevices, CopiesAreIndependent) {
  Session session;
  const auto id = session.opened("disk");
  session.io(id, Opcode::write);
  ServerDevices copy = session.devices;
  session.storage_done(0);
  EXPECT_EQ(session.devices.unanswered(), 0U);
  EXPECT_EQ(copy.unanswered(), 1U);
}

}  // namespace
}  // namespace rtrs::rnbd::server_devices_test
