// Tests the actions of a block server, and the handling of results that are late, out of order or missing.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <map>
#include <variant>
#include <vector>

#include "core/driver/test_block_server.hpp"

namespace rtrs::block_server_test {
namespace {

using test::BlockServerTest;
using test::RawClient;
using wire::rnbd::Opcode;

TEST_F(BlockServerTest, RequestReachesStorageAndItsResultTheClient) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  client.chunk(3)[4095] = std::byte{42};
  client.io(3, device, Opcode::write);
  turn();
  ASSERT_EQ(storage.size(), 1U);
  EXPECT_EQ(storage[0].opcode, Opcode::write);
  EXPECT_EQ(storage[0].handle, last_handle);
  EXPECT_EQ(storage[0].bytes, 4096U);
  EXPECT_EQ(storage[0].data.data(), client.chunk(3).data());
  ASSERT_EQ(storage[0].data.size(), 4096U);
  EXPECT_EQ(storage[0].data[4095], std::byte{42});
  EXPECT_EQ(client.answer(3), std::nullopt);
  EXPECT_TRUE(done(storage[0].id, ENOSPC));
  EXPECT_EQ(client.answer(3), ENOSPC);
  EXPECT_EQ(server.stats().storage_operations, 1U);
  EXPECT_EQ(server.stats().stale_results, 0U);
}

TEST_F(BlockServerTest, RequestStartsInThePollThatInvalidatesItsKey) {
  ServerConfig config = test::block_server_config();
  config.always_invalidate = true;
  server = BlockServer{clamp_to(config, fabric.capabilities()), 5, nullptr};
  ASSERT_EQ(server.listen(fabric, now, {}), Errc::ok);
  RawClient client = connect();
  client.open(0, "disk");
  turn();
  const std::uint32_t device = client.device_id(0);
  client.io(3, device, Opcode::write);
  client.io(4, device, Opcode::write);
  std::array<block::Action, 3> out;
  EXPECT_EQ(server.poll(fabric, ++now, out), 2U);
  EXPECT_TRUE(std::holds_alternative<block::StartStorage>(out[0]));
  EXPECT_TRUE(std::holds_alternative<block::StartStorage>(out[1]));
}

TEST_F(BlockServerTest, ResponseContainsNoOldMemory) {
  RawClient client = connect();
  constexpr std::size_t kRoom = 4096;
  const auto room = client.chunk(0).first(kRoom);
  std::fill(room.begin(), room.end(), std::byte{0xee});
  client.open(0, "disk", kRoom);
  turn();
  EXPECT_EQ(client.answer(0), 0);
  EXPECT_NE(client.device_id(0), 0U);
  for (const std::byte left : room.subspan(wire::rnbd::kOpenRspBytes)) ASSERT_EQ(left, std::byte{0});
}

TEST_F(BlockServerTest, ResultsMayArriveInAnyOrderAndCountOnce) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  for (std::uint16_t chunk = 0; chunk < 4; ++chunk) client.io(chunk, device, Opcode::read);
  turn();
  ASSERT_EQ(storage.size(), 4U);
  for (const std::size_t at : {2U, 0U, 3U, 1U}) {
    EXPECT_TRUE(done(storage[at].id));
    EXPECT_EQ(client.answer(static_cast<std::uint16_t>(at)), 0);
    EXPECT_FALSE(done(storage[at].id)) << "second result of the same operation";
    EXPECT_EQ(client.answer(static_cast<std::uint16_t>(at)), std::nullopt);
  }
  EXPECT_EQ(server.stats().stale_results, 4U);
}

TEST_F(BlockServerTest, IdOfACompletedOperationIsNotReused) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  client.io(1, device, Opcode::read);
  turn();
  EXPECT_TRUE(done(storage[0].id));
  EXPECT_EQ(client.answer(1), 0);
  client.io(1, device, Opcode::write);
  turn();
  ASSERT_EQ(storage.size(), 2U);
  EXPECT_NE(storage[0].id, storage[1].id);
  EXPECT_FALSE(done(storage[0].id));
  EXPECT_FALSE(server.export_measured(fabric, now, storage[1].id, 5)) << "the operation is not a measurement";
  EXPECT_FALSE(server.export_opened(fabric, now, storage[1].id, good("x"))) << "the operation is not an open";
  EXPECT_EQ(client.answer(1), std::nullopt);
  EXPECT_TRUE(done(storage[1].id));
  EXPECT_EQ(client.answer(1), 0);
}

TEST_F(BlockServerTest, SessionMemoryIsKeptUntilStorageIsDone) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  client.io(2, device, Opcode::read);
  client.io(3, device, Opcode::read);
  turn();
  ASSERT_EQ(storage.size(), 2U);
  client.drop();
  turn();
  EXPECT_TRUE(fabric.released.empty());
  EXPECT_TRUE(closed.empty() && ended.empty());
  std::fill(storage[0].data.begin(), storage[0].data.end(), std::byte{1});
  EXPECT_TRUE(done(storage[0].id));
  turn();
  EXPECT_TRUE(fabric.released.empty());
  EXPECT_TRUE(closed.empty());
  EXPECT_TRUE(done(storage[1].id, EIO));
  turn();
  // After a storage error the server measures the export; the session waits for that result too.
  ASSERT_EQ(measures.size(), 1U);
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(server.export_measured(fabric, now, measures[0].id, 1024));
  turn();
  EXPECT_EQ(fabric.released, std::vector<RegionId>{client.region()});
  EXPECT_EQ(closed, std::vector<std::uint64_t>{last_handle});
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].serial, sessions[0].serial);
  EXPECT_EQ(server.devices(0), nullptr);
}

TEST_F(BlockServerTest, ResultOfAnEndedSessionIsIgnored) {
  RawClient first = connect();
  const std::uint32_t device = opened(first, "disk");
  first.io(0, device, Opcode::read);
  turn();
  EXPECT_TRUE(done(storage[0].id));
  first.drop();
  turn();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_FALSE(done(storage[0].id));
  EXPECT_FALSE(server.export_measured(fabric, now, storage[0].id, 7));
  // The second session reuses the index of the first, and its operation has the number of the first session's
  // operation. A late result of the first session must not complete the new operation.
  RawClient second = connect();
  ASSERT_EQ(sessions.size(), 2U);
  EXPECT_EQ(sessions[1].session, sessions[0].session);
  EXPECT_NE(sessions[1].serial, sessions[0].serial);
  const std::uint32_t other = opened(second, "disk");
  EXPECT_NE(other, device);
  second.io(0, other, Opcode::read);
  turn();
  ASSERT_EQ(storage.size(), 2U);
  EXPECT_FALSE(done(storage[0].id));
  EXPECT_EQ(second.answer(0), std::nullopt);
  EXPECT_TRUE(done(storage[1].id));
  EXPECT_EQ(second.answer(0), 0);
  EXPECT_EQ(server.stats().stale_results, 3U);
}

TEST_F(BlockServerTest, ExportOpenedAfterClientDisconnectIsClosed) {
  defers_opens = true;
  RawClient client = connect();
  client.open(0, "disk");
  turn();
  ASSERT_EQ(opens.size(), 1U);
  client.drop();
  turn();
  EXPECT_TRUE(ended.empty());
  EXPECT_EQ(opens[0].name, "disk");
  EXPECT_TRUE(server.export_opened(fabric, now, opens[0].id, good("disk")));
  turn();
  EXPECT_EQ(closed, std::vector<std::uint64_t>{last_handle});
  EXPECT_EQ(ended.size(), 1U);
  EXPECT_FALSE(server.export_opened(fabric, now, opens[0].id, good("disk"))) << "the caller must close it";
}

TEST_F(BlockServerTest, DeviceIsClosedAfterItsLastOperation) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  client.io(1, device, Opcode::write);
  client.close(2, device);
  client.io(3, device, Opcode::write);
  turn();
  ASSERT_EQ(storage.size(), 1U);
  EXPECT_EQ(client.answer(3), ENOTCONN) << "no new IO after the CLOSE";
  EXPECT_EQ(client.answer(2), std::nullopt);
  EXPECT_TRUE(closed.empty());
  EXPECT_TRUE(done(storage[0].id));
  EXPECT_EQ(server.next_deadline(), 0U);
  turn();
  EXPECT_EQ(client.answer(1), 0);
  EXPECT_EQ(client.answer(2), 0);
  EXPECT_EQ(closed, std::vector<std::uint64_t>{last_handle});
}

TEST_F(BlockServerTest, ForceClosedDeviceFailsNewRequests) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  const std::uint64_t handle = last_handle;
  client.io(1, device, Opcode::write);
  turn();
  EXPECT_FALSE(server.force_close(fabric, now, handle + 1));
  EXPECT_TRUE(server.force_close(fabric, now, handle));
  client.io(2, device, Opcode::read);
  turn();
  EXPECT_EQ(client.answer(2), ENOTCONN);
  EXPECT_TRUE(closed.empty());
  EXPECT_TRUE(done(storage[0].id));
  turn();
  EXPECT_EQ(client.answer(1), 0);
  EXPECT_EQ(closed, std::vector<std::uint64_t>{handle});
  EXPECT_FALSE(server.force_close(fabric, now, handle));
  EXPECT_NE(opened(client, "disk"), device);
}

TEST_F(BlockServerTest, EndOfASessionReportsItsUnknownFlags) {
  RawClient client = connect();
  wire::rnbd::Io message;
  message.device_id = opened(client, "disk");
  message.opcode = Opcode::read;
  message.size = 4096;
  message.unknown_flags = ~0U;
  std::array<std::byte, wire::rnbd::kIoBytes> header;
  ASSERT_EQ(encode(message, header), header.size());
  client.request(1, Direction::read, message.size, header);
  turn();
  ASSERT_EQ(storage.size(), 1U);
  EXPECT_TRUE(done(storage[0].id));
  client.drop();
  turn();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].unknown_flags, 1U);
}

TEST_F(BlockServerTest, CacheDamageIsReportedToEverySessionOfTheExport) {
  RawClient met = connect(), same = connect(), other = connect();
  const std::uint32_t device = opened(met, "disk");
  const std::uint32_t same_device = opened(same, "d");  // another name of the same export
  const std::uint32_t other_device = opened(other, "else");
  met.io(1, device, Opcode::flush);
  turn();
  ASSERT_EQ(storage.size(), 1U);
  EXPECT_TRUE(done(storage[0].id, ENOSPC, true));
  turn();
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].error, ENOSPC);
  EXPECT_EQ(damaged[0].export_id, static_cast<std::uint64_t>('d'));
  EXPECT_EQ(met.answer(1), ENOSPC);
  met.io(1, device, Opcode::flush);
  same.io(1, same_device, Opcode::flush);
  other.io(1, other_device, Opcode::flush);
  turn();
  EXPECT_EQ(met.answer(1), ENOSPC);
  EXPECT_EQ(same.answer(1), ENOSPC);
  ASSERT_EQ(storage.size(), 2U) << "only the flush of the other export";
  EXPECT_EQ(storage[1].session, sessions[2].session);
  // After a close and a reopen, the device works again.
  same.close(2, same_device);
  turn();
  same.io(1, opened(same, "d"), Opcode::flush);
  turn();
  EXPECT_EQ(storage.size(), 3U);
  EXPECT_EQ(server.stats().sync_failures, 1U);
}

TEST_F(BlockServerTest, ExportOpenedDuringUnreportedDamageIsDamagedToo) {
  RawClient met = connect(), late = connect();
  const std::uint32_t device = opened(met, "disk");
  met.io(1, device, Opcode::flush);
  defers_opens = true;
  late.open(0, "disk");
  turn();
  ASSERT_EQ(opens.size(), 1U);
  EXPECT_TRUE(done(storage[0].id, EIO, true));
  // The caller reports the old instance, because it has not polled the damage yet.
  EXPECT_TRUE(server.export_opened(fabric, now, opens[0].id, good("disk")));
  turn();
  EXPECT_EQ(late.answer(0), 0);
  late.io(1, late.device_id(0), Opcode::flush);
  turn();
  EXPECT_EQ(late.answer(1), EIO);
  // A reopen gets the new instance.
  late.close(2, late.device_id(0));
  turn();
  defers_opens = false;
  late.io(1, opened(late, "disk"), Opcode::flush);
  turn();
  EXPECT_EQ(storage.size(), 2U);
}

TEST_F(BlockServerTest, ReportOfOneDamageLeavesTheOthersUnreported) {
  RawClient met = connect(), late = connect();
  const std::uint32_t a = opened(met, "a"), b = opened(met, "b");
  met.io(1, a, Opcode::flush);
  met.io(2, b, Opcode::flush);
  defers_opens = true;
  late.open(0, "b");
  turn();
  ASSERT_EQ(opens.size(), 1U);
  ASSERT_EQ(storage.size(), 2U);
  EXPECT_TRUE(done(storage[0].id, EIO, true));
  EXPECT_TRUE(done(storage[1].id, EIO, true));
  std::array<block::Action, 1> out;
  ASSERT_EQ(server.poll(fabric, ++now, out), 1U);
  EXPECT_EQ(std::get<block::CacheDamaged>(out[0]).export_id, static_cast<std::uint64_t>('a'));
  EXPECT_TRUE(server.export_opened(fabric, now, opens[0].id, good("b")));
  turn();
  late.io(1, late.device_id(0), Opcode::flush);
  turn();
  EXPECT_EQ(late.answer(1), EIO);
}

TEST_F(BlockServerTest, SyncFailureOutsideRequestsReachesAllSessionsOfTheExport) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  server.sync_failed('x', ENOSPC);
  client.io(1, device, Opcode::flush);
  turn();
  ASSERT_EQ(storage.size(), 1U) << "the failed sync was of another export";
  EXPECT_TRUE(done(storage[0].id));
  EXPECT_EQ(client.answer(1), 0);
  server.sync_failed('d', ENOSPC);
  client.io(1, device, Opcode::flush);
  turn();
  EXPECT_EQ(client.answer(1), ENOSPC);
}

TEST_F(BlockServerTest, UnreportedDamageAffectsOnlyItsExport) {
  RawClient met = connect(), late = connect();
  met.io(1, opened(met, "disk"), Opcode::flush);
  defers_opens = true;
  late.open(0, "other");
  turn();
  ASSERT_EQ(opens.size(), 1U);
  EXPECT_TRUE(done(storage[0].id, EIO, true));
  EXPECT_TRUE(server.export_opened(fabric, now, opens[0].id, good("other")));
  EXPECT_FALSE(server.closed());
  turn();
  EXPECT_EQ(late.answer(0), 0);
  late.io(1, late.device_id(0), Opcode::flush);
  turn();
  EXPECT_EQ(late.answer(1), std::nullopt);
  EXPECT_EQ(storage.size(), 2U);
}

// Each poll hands out one action, while every session closes many devices at once.
TEST_F(BlockServerTest, ActionsKeepTheirOrderWithASmallOutputArray) {
  max_per_poll = 1;
  std::vector<RawClient> several{connect(), connect(), connect()};
  for (RawClient& client : several)
    for (const char* name : {"a", "b", "c", "d", "e"}) opened(client, name);
  for (RawClient& client : several) client.drop();
  server.close(fabric, now);
  turn();
  EXPECT_EQ(closed.size(), 15U);
  EXPECT_EQ(ended.size(), 3U);
  EXPECT_TRUE(server.closed());
}

}  // namespace
}  // namespace rtrs::block_server_test
