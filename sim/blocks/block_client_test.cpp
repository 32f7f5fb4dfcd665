// Tests of requests that a BlockClient refuses, and of devices that share one session.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "sim/blocks/test_block_client.hpp"

namespace rtrs::sim::block_client_test {
namespace {

TEST_F(BlockClientTest, InvalidRequestsAreRefusedWithTheirErrno) {
  const DeviceHandle device = open(w, "a");
  expect(result_of(device, {.offset = 1, .length = 512}), Errc::invalid, EINVAL);
  expect(result_of(device, {.offset = 0, .length = 511}), Errc::invalid, EINVAL);
  expect(result_of(device, {.offset = 63 * 512, .length = 1024}), Errc::invalid, EIO);
  expect(result_of(device, {.offset = 64 * 512, .length = 512}), Errc::invalid, EIO);
  expect(result_of(device, {.offset = ~std::uint64_t{511}, .length = 1024}), Errc::invalid, EIO);
  expect(result_of(device, {.offset = 0, .length = 0}), Errc::ok, 0);
  expect(result_of(device, {.offset = 0, .length = 64 * 512}), Errc::ok, 0);
  const DeviceHandle reader = open(w, "b", AccessMode::read_only);
  // The errno is EPERM even for operations that the server does not support on a read-only device.
  for (const Opcode change : {Opcode::write, Opcode::discard, Opcode::write_zeroes})
    expect(result_of(reader, {.opcode = change, .length = 512}), Errc::invalid, EPERM);
  expect(result_of(reader, {.opcode = Opcode::secure_erase, .length = 512}), Errc::invalid, EOPNOTSUPP);
  EXPECT_TRUE(w.client().writable(device));
  EXPECT_FALSE(w.client().writable(reader));
}

TEST_F(BlockClientTest, RequestsOfAnUnmappedDeviceFail) {
  const DeviceHandle device = open(w, "a");
  EXPECT_EQ(submit(device, {.length = 512}), Errc::ok);
  w.client().unmap(w.client_fabric(), w.now(), device);
  expect(result_of(device, {.length = 512}), Errc::not_open, ENODEV);
  expect(next(), Errc::ok, 0);
  w.until("it is unmapped", [&] { return w.state(device) == rnbd::DeviceState::unmapped; });
  EXPECT_FALSE(w.client().writable(device)) << "only while it was mapped";
  expect(result_of(device, {.length = 512}), Errc::not_open, ENODEV);
  // The next device reuses the slot of the unmapped device "a".
  const DeviceHandle next_device = open(w, "b", AccessMode::read_only);
  expect(result_of(device, {.length = 512}), Errc::not_open, ENODEV);
  expect(result_of(next_device, {.opcode = Opcode::write, .length = 512}), Errc::invalid, EPERM);
  EXPECT_EQ(w.client().geometry(device), nullptr);
  EXPECT_FALSE(w.client().writable(device));
}

TEST_F(BlockClientTest, NothingIsAcceptedAfterClose) {
  const DeviceHandle device = open(w, "a");
  for (unsigned io = 0; io < 20; ++io) EXPECT_EQ(submit(device, {.length = 512}), Errc::ok);
  w.close_session();
  EXPECT_EQ(submit(device, {.length = 512}), Errc::session_closed);
  EXPECT_EQ(w.client().map(w.client_fabric(), w.now(), "b", AccessMode::read_only).error, ESHUTDOWN);
  unsigned good = 0;
  for (unsigned io = 0; io < 20; ++io) good += next().result == Errc::ok ? 1U : 0U;
  EXPECT_EQ(good, 20U) << "requests in the session complete";
  w.until("it is closed", [&] { return w.client().closed(); });
  EXPECT_EQ(w.client().under_way(), 0U);
}

TEST_F(BlockClientTest, PartsOfARequestLandAtTheirPlaceInTheRegion) {
  const DeviceHandle device = open(w, "a");
  ASSERT_LT(w.client().session().max_io_size(), kSectors * 512);
  for (unsigned sector = 0; sector < kSectors; sector += 8)
    good(w, w.submit(device, Opcode::write, sector, 8));
  const auto region = w.client_fabric().allocate(kSectors * 512 + 512);
  ASSERT_TRUE(region);
  const auto memory = region->bytes.subspan(512, kSectors * 512);
  BlockRequest request{.length = kSectors * 512, .data = memory.data()};
  request.region = region->id;
  request.region_offset = 512;
  EXPECT_EQ(w.client().submit(w.client_fabric(), w.now(), device, request), Errc::ok);
  expect(next(), Errc::ok, 0);
  expect(result_of(device, {.length = kSectors * 512}), Errc::ok, 0);
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), data.begin()));
  w.client_fabric().release(region->id);
}

// The server restarts with a larger block size while requests that were made for the smaller size wait.
TEST_F(BlockClientTest, ResentRequestFitsTheReopenedDevice) {
  const DeviceHandle device = open(w, "a");
  ASSERT_LT(w.client().session().max_io_size(), kSectors * 512);
  w.crash_server();
  w.disk("a").block = 4096;
  for (const std::uint64_t sector : {std::uint64_t{8}, std::uint64_t{9}})
    EXPECT_EQ(submit(device, {.offset = sector * 512, .length = 4096}), Errc::ok);
  EXPECT_EQ(submit(device, {.length = kSectors * 512}), Errc::ok);
  w.start_server();
  std::map<std::uint64_t, unsigned> results;
  for (unsigned io = 0; io < 3; ++io) {
    const BlockCompletion done = next();
    ++results[static_cast<std::uint64_t>(done.error)];
    if (done.error != 0) expect(done, Errc::invalid, EINVAL);
  }
  EXPECT_EQ(results, (std::map<std::uint64_t, unsigned>{{0, 2}, {EINVAL, 1}}));
  EXPECT_EQ(w.geometry(device)->logical_block_size, 4096U);
}

// A discard is in flight when the server crashes, and the next server accepts shorter discards only. The
// client must split the discard again; the world checks the limits of each request at storage.
TEST_F(BlockClientTest, ResentRequestRespectsTheLimitsOfTheNextServer) {
  const DeviceHandle device = open(w, "a");
  const auto discard = w.submit(device, Opcode::discard, 0, kSectors);
  w.crash_server();
  w.disk("a").most_discard = 4;
  w.start_server();
  good(w, discard);
  EXPECT_EQ(w.failure(), "");
  EXPECT_EQ(w.geometry(device)->max_discard_sectors, 4U);
  EXPECT_EQ(w.disk("a").operations, kSectors / 4);
}

TEST_F(BlockClientTest, CompletedRequestIsDueAtOnce) {
  const DeviceHandle device = open(w, "a");
  EXPECT_GT(w.client().next_deadline(), w.now());
  EXPECT_EQ(submit(device, {.length = 0}), Errc::ok);
  EXPECT_EQ(w.client().next_deadline(), 0U);
  expect(next(), Errc::ok, 0);
}

TEST_F(BlockClientTest, OldestOfTooManyEventsAreDropped) {
  BlockClient idle(BlockClientOptions{}, nullptr);
  DeviceHandle last = 0;
  for (int i = 0; i < 3000; ++i) {
    const rnbd::MapOutcome outcome = idle.map(w.client_fabric(), w.now(), "a", AccessMode::read_write);
    ASSERT_EQ(outcome.error, 0);
    last = outcome.device;
    idle.unmap(w.client_fabric(), w.now(), last);
  }
  unsigned count = 0;
  BlockEvent event;
  for (; idle.take_event(event); ++count) {
  }
  EXPECT_EQ(count, 1024U);
  EXPECT_EQ(std::get<rnbd::DeviceChanged>(event).device, last);
}

class SlowStorageTest : public BlockClientTest {
 protected:
  SlowStorageTest() : BlockClientTest(BlockOptions{.storage = seconds(1000)}) {}
};

// The server answers CLOSE only after the last request of the device, which takes 1000 s here. The client
// must not wait that long.
TEST_F(SlowStorageTest, DelaysTheCloseForALimitedTimeOnly) {
  const DeviceHandle device = open(w, "a");
  for (unsigned io = 0; io < 4; ++io) EXPECT_EQ(submit(device, {.length = 512}), Errc::ok);
  w.close_session();
  w.pass(BlockClient::kUnmapGrace + ClientConfig{}.close_timeout + seconds(1));
  EXPECT_TRUE(w.client().closed());
}

class BusyStorageTest : public BlockClientTest {
 protected:
  BusyStorageTest() : BlockClientTest(BlockOptions{.storage = seconds(2)}) {}
};

TEST_F(BusyStorageTest, FailoverCountsForThePathThatTakesOver) {
  const DeviceHandle device = open(w, "a");
  for (unsigned io = 0; io < 6; ++io) EXPECT_EQ(submit(device, {.length = 512}), Errc::ok);
  w.until("storage has all", [&] { return w.storage_in_flight() == 6; });
  const Client& session = w.client().session();
  ASSERT_EQ(session.stats().failovers, 0U);
  w.break_path(0);
  w.until("requests went over", [&] { return session.stats().failovers != 0; });
  EXPECT_EQ(w.failure(), "");
  EXPECT_EQ(session.paths()[0].failovers, 0U);
  EXPECT_EQ(session.paths()[1].failovers, session.stats().failovers);
}

class CrowdedTest : public BlockClientTest {
 protected:
  CrowdedTest() : BlockClientTest(BlockOptions{.depth = 1, .max_queued = 256}) {}
};

// The client does not repeat a CLOSE that found no free permit, and the device would stay open at the server.
// 400 requests of one device must therefore leave a permit for the CLOSEs of two others.
TEST_F(CrowdedTest, RequestsOfOneDeviceLeavePermitsForMessagesOfOthers) {
  w.add_disk("c", kSectors);
  const DeviceHandle busy = open(w, "a"), one = open(w, "b"), other = open(w, "c");
  for (unsigned io = 0; io < 400; ++io) EXPECT_EQ(submit(busy, {.length = 512}), Errc::ok);
  const std::uint64_t losses = w.losses();
  w.unmap(one);
  w.unmap(other);
  w.until_closed("b", losses);
  w.until_closed("c", losses);
  EXPECT_EQ(w.failure(), "");
  EXPECT_EQ(w.losses(), losses);
}

TEST_F(BlockClientTest, AddedPathStartsWithFreshCounters) {
  Client& session = w.client().session();
  w.until("both paths are up", [&] { return session.paths()[1].state == PathState::connected; });
  w.break_path(1);
  w.until("it came back", [&] { return session.paths()[1].reconnects != 0; });
  ASSERT_NE(session.peer(1), "");
  ASSERT_EQ(session.remove_path(w.client_fabric(), w.now(), 1), Errc::ok);
  w.until("it is gone", [&] { return session.paths()[1].state == PathState::absent; });
  const PathAddress address = session.address(1);
  ASSERT_EQ(session.add_path(w.client_fabric(), w.now(), address), Errc::ok);
  EXPECT_EQ(session.add_path(w.client_fabric(), w.now(), address), Errc::path_exists) << "it exists now";
  EXPECT_EQ(to_linux_errno(Errc::path_exists), EEXIST);
  EXPECT_EQ(session.paths()[1].reconnects, 0U);
  EXPECT_EQ(session.peer(1), "");
  EXPECT_EQ(w.failure(), "");
}

TEST_F(BlockClientTest, FuaChangeFailsIfCloseCameBeforeItsFlush) {
  w.disk("a").fua = false;
  const DeviceHandle device = open(w, "a");
  EXPECT_EQ(submit(device, {.opcode = Opcode::write_zeroes, .length = 512, .fua = true}), Errc::ok);
  w.close_session();
  expect(next(), Errc::session_closed, ESHUTDOWN);
  EXPECT_EQ(w.disk("a").operations, 1U) << "the change was executed but not flushed";
}

class FewRequestsTest : public BlockClientTest {
 protected:
  FewRequestsTest() : BlockClientTest(BlockOptions{.max_requests = 3}) {}
};

TEST_F(FewRequestsTest, RequestsBeyondTheLimitAreRefused) {
  const DeviceHandle device = open(w, "a");
  for (unsigned io = 0; io < 3; ++io) EXPECT_EQ(submit(device, {.length = 512}), Errc::ok);
  EXPECT_EQ(submit(device, {.length = 512}), Errc::queue_full);
  for (unsigned io = 0; io < 3; ++io) expect(next(), Errc::ok, 0);
  EXPECT_EQ(submit(device, {.length = 512}), Errc::ok);
}

// One device waits to be opened for the first time; the other one works.
TEST_F(BlockClientTest, WaitingDeviceDoesNotDelayAnotherDevice) {
  const DeviceHandle device = open(w, "a");
  w.cut(0);
  w.cut(1);
  w.until("the link is down", [&] { return !w.link_up(); });
  const auto waiting = static_cast<DeviceHandle>(w.map("b"));
  EXPECT_EQ(submit(waiting, {.length = 512}), Errc::ok);
  EXPECT_EQ(submit(device, {.length = 512}), Errc::ok);
  w.pass(seconds(1));
  EXPECT_EQ(w.client().session().inflight(), 1U) << "one request waits for a path, the other for OPEN";
  w.heal(0);
  w.heal(1);
  expect(next(), Errc::ok, 0);
  expect(next(), Errc::ok, 0);
}

}  // namespace
}  // namespace rtrs::sim::block_client_test
