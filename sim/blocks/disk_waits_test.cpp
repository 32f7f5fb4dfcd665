// Tests the rules of DiskBook that bound waiting: for a device to be open, and for the retry of a refused
// device.
#include <gtest/gtest.h>

#include <cerrno>

#include "sim/blocks/block_plays.hpp"
#include "sim/disks/disk_book.hpp"

namespace rtrs::sim::disk_waits_test {
namespace {

// A second DiskBook, in addition to the world's own, observes the client.
class BookBesideWorldTest : public testing::Test {
 protected:
  explicit BookBesideWorldTest(const BlockOptions& how)
      : scenario(block_world_of(how)), world(options(), seeded), w(world) {
    w.add_disk("a", kSectors);
    w.start_server();
    w.start_client();
    w.until("the session is up", [&] { return w.link_up(); });
  }
  // Starts observing the client. The world does not advance afterwards.
  void observe() {
    disks.add("a", kSectors, book);
    book.mapped(device, "a", AccessMode::read_write);
    book.begins(w.client());
  }
  WorldOptions options() {
    WorldOptions made;
    made.scenario = &scenario;
    return made;
  }
  static ClientConfig patient() {
    ClientConfig config;
    config.queue_timeout = seconds(3);
    return config;
  }
  // Returns the violation that the book reports when `time` has passed; empty if there is none.
  std::string waits(Nanos time) {
    failure.clear();
    book.check_waits(w.now() + time);
    return failure;
  }

  SeededChoice seeded{1};
  Scenario scenario;
  World world;
  BlockWorld w;
  DeviceHandle device = 0;
  std::string failure;
  Disks::Fail fail = [this](const std::string& what) { failure = what; };
  Disks disks{seeded, milliseconds(1), 0, fail};
  DiskBook book{disks, patient(), fail};
};

class OpenDeviceTest : public BookBesideWorldTest {
 protected:
  OpenDeviceTest() : BookBesideWorldTest({}) {
    device = open(w, "a");
    w.until("nothing is under way", [&] { return w.client().session().inflight() == 0; });
    observe();
  }
  // Returns the violation that the book reports when a request fails with ENOTCONN; empty if there is none.
  std::string violation_on_enotconn() {
    const Nanos later = w.now() + milliseconds(1);
    const BlockRequest request = book.open(device, Opcode::read, 0, 8, false, false, later, later);
    failure.clear();
    book.over({request.user_data, Errc::peer_error, ENOTCONN}, later);
    return failure;
  }
};

TEST_F(OpenDeviceTest, RequestIsHeldAtMostForQueueTimeout) {
  book.open(device, Opcode::read, 0, 8, false, false, w.now(), w.now());
  EXPECT_EQ(waits(0), "");
  EXPECT_EQ(waits(seconds(3)), "");
  EXPECT_EQ(waits(seconds(3) + milliseconds(2)),
            "a request waits for its device to be open for at most queue_timeout");
}

constexpr const char* kOnce = "a request does not fail because its device was closed once";

TEST_F(OpenDeviceTest, RequestDoesNotFailAfterOneRemovalOfItsDevice) {
  EXPECT_EQ(violation_on_enotconn(), kOnce);
  for (unsigned times = 1; times < rnbd::kMaxFutileReopens; ++times) book.taken_away("a", w.now());
  EXPECT_EQ(violation_on_enotconn(), kOnce);
  book.taken_away("a", w.now());
  EXPECT_EQ(violation_on_enotconn(), "");
}

// A device that is being unmapped is not reopened after its session ended.
TEST_F(OpenDeviceTest, RequestOfAnUnmappingDeviceFailsOnlyAfterItsSessionEnded) {
  w.submit(device, Opcode::read, 0, 8);
  w.unmap(device);
  ASSERT_EQ(w.client().state(device), rnbd::DeviceState::unmapping);
  EXPECT_EQ(violation_on_enotconn(), kOnce);
  book.session_closed(w.now());
  EXPECT_EQ(violation_on_enotconn(), "");
}

// The server never answers OPEN. The request timeout ends the path that carried it; the other path stays
// connected.
class UnansweredOpenTest : public BookBesideWorldTest {
 protected:
  UnansweredOpenTest() : BookBesideWorldTest({.opening = seconds(1000), .request_timeout = seconds(2)}) {
    device = static_cast<DeviceHandle>(w.map("a"));
    w.until("the OPEN has failed", [&] { return w.messages_under_way() == 0; });
    observe();
  }
};

TEST_F(UnansweredOpenTest, OpenIsSentAgainInTime) {
  ASSERT_TRUE(w.link_up());
  EXPECT_EQ(waits(0), "");
  EXPECT_EQ(waits(BlockClient::kRetryPause), "");
  EXPECT_EQ(waits(BlockClient::kRetryPause + milliseconds(2)),
            "a device that is not open is reopened in time");
}

// The device was taken away, and the server refuses to reopen it because the disk is now read-only.
class RefusedDeviceTest : public BookBesideWorldTest {
 protected:
  RefusedDeviceTest() : BookBesideWorldTest({}) {
    device = open(w, "a");
    w.disk("a").writable = false;
    w.take_away("a");
    w.submit(device, Opcode::read, 0, 8);
    w.until("the device is refused", [&] { return w.client().refused(device); });
    observe();
  }
  void refused(Nanos clock) {
    book.polls(clock);
    book.polled();
    book.event(rnbd::DeviceChanged{device, rnbd::DeviceState::closed, EPERM, {}}, clock);
  }
  bool accepts() {
    failure.clear();
    book.check_waits(w.now());
    return failure.empty();
  }
};

// The device stays refused at the client, because the world does not advance.
TEST_F(RefusedDeviceTest, IsRetriedAfterTheFirstPause) {
  const Nanos begin = w.now();
  refused(begin);
  EXPECT_TRUE(accepts());
  book.polls(begin + milliseconds(999));
  EXPECT_TRUE(accepts());
  book.polls(begin + seconds(1));
  EXPECT_FALSE(accepts());
  EXPECT_EQ(failure, "a refused device is retried in time");
}

TEST_F(RefusedDeviceTest, PauseDoublesUnlessADeviceOpened) {
  const Nanos begin = w.now();
  refused(begin);
  refused(begin + seconds(1));  // in one poll, the client handles the refusal before its timer
  EXPECT_FALSE(accepts()) << "no retry pause is running";
  refused(begin + milliseconds(1001));
  EXPECT_TRUE(accepts());
  book.polls(begin + milliseconds(3000));
  EXPECT_TRUE(accepts());
  book.polls(begin + milliseconds(3001));
  EXPECT_FALSE(accepts());
}

TEST_F(RefusedDeviceTest, PauseIsResetWhenADeviceOpens) {
  const Nanos begin = w.now();
  refused(begin);
  refused(begin + seconds(1));
  book.polls(begin + milliseconds(1001));
  book.event(rnbd::DeviceChanged{device, rnbd::DeviceState::open, 0, {}}, begin);
  refused(begin + milliseconds(1002));
  book.polls(begin + milliseconds(2001));
  EXPECT_TRUE(accepts());
  book.polls(begin + milliseconds(2002));
  EXPECT_FALSE(accepts());
}

// The client has reopened the removed device. The book must not expect a retry pause after ENOTCONN.
TEST_F(RefusedDeviceTest, RemovedDeviceCountsAsRefusedOnlyIfTheClientReportsIt) {
  const Nanos begin = w.now();
  w.disk("a").writable = true;
  w.until("the device is open", [&] { return w.state(device) == rnbd::DeviceState::open; });
  book.polls(begin);
  book.polled();
  book.event(rnbd::DeviceChanged{device, rnbd::DeviceState::closed, ENOTCONN, {}}, begin);
  book.polls(begin + seconds(100));
  EXPECT_TRUE(accepts());
}

// Storage executes a request of another device, so that the client always has one in flight.
class AbsentDeviceTest : public BookBesideWorldTest {
 protected:
  AbsentDeviceTest() : BookBesideWorldTest({.storage = seconds(1000)}) {
    w.add_disk("b", kSectors);
    device = open(w, "a");
    w.submit(open(w, "b"), Opcode::read, 0, 8);
    w.until("storage has the request", [&] { return w.storage_in_flight() == 1; });
    observe();
    refuse(ENOENT);
  }
  void refuse(std::uint16_t error) {
    book.polls(w.now());
    book.polled();
    book.event(rnbd::DeviceChanged{device, rnbd::DeviceState::closed, error, {}}, w.now());
  }
  BlockRequest read() { return book.open(device, Opcode::read, 0, 8, false, false, w.now(), w.now()); }
  std::string fails(Nanos time) { return fails(read(), ENOENT, time); }
  std::string fails(const BlockRequest& request, std::uint16_t error, Nanos time) {
    failure.clear();
    book.over({request.user_data, Errc::peer_error, error}, w.now() + time);
    return failure;
  }
  // Fails a flush long after the device was opened.
  std::string flush_fails(Nanos time) {
    return fails(book.open(device, Opcode::flush, 0, 0, false, false, kLater, w.now()), EIO, time);
  }
  static constexpr Nanos kLater = seconds(100);
};

constexpr const char* kRefusedTooLong =
    "a request waits for a device that the server refuses for at most queue_timeout";

TEST_F(AbsentDeviceTest, HoldsRequestAtMostForQueueTimeoutWhileAnotherDeviceIsBusy) {
  read();
  EXPECT_NE(waits(seconds(3)), kRefusedTooLong);
  EXPECT_EQ(waits(seconds(3) + milliseconds(2)), kRefusedTooLong);
  book.event(rnbd::DeviceChanged{device, rnbd::DeviceState::open, 0, disks.at("a").geometry}, w.now());
  EXPECT_NE(waits(seconds(3) + milliseconds(2)), kRefusedTooLong);
}

TEST_F(AbsentDeviceTest, FailsRequestNoEarlierThanQueueTimeout) {
  EXPECT_EQ(fails(seconds(3) - 1),
            "a request waits for queue_timeout while the server refuses its device for a temporary reason");
  EXPECT_EQ(fails(seconds(3)), "");
}

// A failed sync and a refusal both fail a flush with EIO.
TEST_F(AbsentDeviceTest, FlushMayFailWithEioAfterRefusalsWithEioForQueueTimeout) {
  constexpr const char* kNoReason =
      "a flush of a fails because a sync failed since it was opened, or the server refused to open it";
  EXPECT_EQ(flush_fails(seconds(3)), kNoReason) << "the server refused with ENOENT";
  refuse(EIO);
  EXPECT_EQ(flush_fails(seconds(3) - 1), kNoReason);
  EXPECT_EQ(flush_fails(seconds(3)), "");
  book.event(rnbd::DeviceChanged{device, rnbd::DeviceState::open, 0, disks.at("a").geometry}, w.now());
  EXPECT_EQ(flush_fails(seconds(3)), kNoReason) << "the device is open again";
}

}  // namespace
}  // namespace rtrs::sim::disk_waits_test
