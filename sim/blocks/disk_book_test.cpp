// Rules of the book of an application over block devices, against histories that it must accept or refuse.
#include "sim/disks/disk_book.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {
namespace {

constexpr DeviceHandle kDevice = 7;

// A book whose disk is touched by nobody but the test.
class DiskBookTest : public testing::Test {
 protected:
  DiskBookTest() : disk(disks.add("a", kSectors, book)) { book.mapped(kDevice, "a", AccessMode::read_write); }
  // Of an IO that begins now, its first message of `sectors`.
  block::StartStorage begin(Opcode opcode, bool fua, std::uint32_t sectors = 8) {
    const BlockRequest request = book.open(kDevice, opcode, 0, 8, fua, false, 0, 0);
    block::StartStorage action;
    action.opcode = opcode;
    action.bytes = static_cast<std::uint32_t>(sectors * kDiskSector);
    action.prio = request.prio;
    return action;
  }
  // Storage sees it, and does it. Long after anything was lost.
  bool accepts(const block::StartStorage& action) {
    failure.clear();
    book.judge_request(action, "a", seconds(100));
    book.served(action);
    return failure.empty();
  }

  std::string failure;
  Disks::Fail fail = [this](const std::string& what) { failure = what; };
  CalmChoice choice;
  Disks disks{choice, milliseconds(1), 0, fail};
  DiskBook book{disks, ClientConfig{}, fail};
  BlockDisk& disk;
};

TEST_F(DiskBookTest, StorageSeesARequestOnce) {
  const auto action = begin(Opcode::write, false);
  EXPECT_TRUE(accepts(action));
  EXPECT_FALSE(accepts(action));
  EXPECT_EQ(failure, "storage sees request 1 once");
}

TEST_F(DiskBookTest, WhatAPathLostIsAskedForAgain) {
  const auto action = begin(Opcode::write, false);
  EXPECT_TRUE(accepts(action));
  book.something_lost(seconds(99));
  EXPECT_TRUE(accepts(action));
  EXPECT_TRUE(accepts(action)) << "messages may be under way for some time";
}

TEST_F(DiskBookTest, AChangeThatAFlushMakesDurableBeginsAgainEachTimeThatItsDeviceWasOpened) {
  disk.fua = false;
  const auto action = begin(Opcode::write, true);
  EXPECT_TRUE(accepts(action));
  ++disk.openings;
  EXPECT_TRUE(accepts(action));
  EXPECT_FALSE(accepts(action));
}

TEST_F(DiskBookTest, AChangeThatIsDurableByItselfDoesNotBeginAgain) {
  const auto action = begin(Opcode::write, true);
  EXPECT_TRUE(accepts(action));
  ++disk.openings;
  EXPECT_FALSE(accepts(action));
  const auto discard = begin(Opcode::discard, true);
  EXPECT_TRUE(accepts(discard));
  ++disk.openings;
  EXPECT_TRUE(accepts(discard)) << "only a write can be";
}

TEST_F(DiskBookTest, OneOfSeveralMessagesBeginsAgainEachTimeThatItsCacheWasReplaced) {
  const auto part = begin(Opcode::write, false, 4), whole = begin(Opcode::write, false);
  EXPECT_TRUE(accepts(part));
  EXPECT_TRUE(accepts(whole));
  ++disk.caches;
  EXPECT_TRUE(accepts(part));
  EXPECT_FALSE(accepts(part));
  EXPECT_FALSE(accepts(whole));
}

TEST_F(DiskBookTest, ACacheThatWasReplacedBeforeARequestDoesNotCount) {
  ++disk.caches;
  const auto part = begin(Opcode::write, false, 4);
  EXPECT_TRUE(accepts(part));
  EXPECT_FALSE(accepts(part));
}

// A world whose server refuses to open a device again.
class RefusedDeviceTest : public testing::Test {
 protected:
  RefusedDeviceTest() : scenario(block_world_of({})), world(options(), seeded), w(world) {
    w.add_disk("a", kSectors);
    w.start_server();
    w.start_client();
    w.until("the session is up", [&] { return w.link_up(); });
    device = open(w, "a");
    w.disk("a").writable = false;
    w.take_away("a");
    w.submit(device, Opcode::read, 0, 8);
    w.until("the device is refused", [&] { return w.client().refused(device); });
    disks.add("a", kSectors, book);
    book.mapped(device, "a", AccessMode::read_write);
    book.begins(w.client());
  }
  WorldOptions options() {
    WorldOptions made;
    made.scenario = &scenario;
    return made;
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

  SeededChoice seeded{1};
  Scenario scenario;
  World world;
  BlockWorld w;
  DeviceHandle device = 0;
  std::string failure;
  Disks::Fail fail = [this](const std::string& what) { failure = what; };
  Disks disks{seeded, milliseconds(1), 0, fail};
  DiskBook book{disks, ClientConfig{}, fail};
};

// The client stays refused, because nothing of the world moves on.
TEST_F(RefusedDeviceTest, IsTriedAgainWhenTheFirstPauseIsOver) {
  const Nanos begin = w.now();
  refused(begin);
  EXPECT_TRUE(accepts());
  book.polls(begin + milliseconds(999));
  EXPECT_TRUE(accepts());
  book.polls(begin + seconds(1));
  EXPECT_FALSE(accepts());
  EXPECT_EQ(failure, "a device that was refused is tried again in time");
}

TEST_F(RefusedDeviceTest, IsTriedAgainAfterTwiceThePauseUnlessADeviceOpened) {
  const Nanos begin = w.now();
  refused(begin);
  refused(begin + seconds(1));  // of one poll, what the server answered comes before the timer
  EXPECT_FALSE(accepts()) << "no pause runs";
  refused(begin + milliseconds(1001));
  EXPECT_TRUE(accepts());
  book.polls(begin + milliseconds(3000));
  EXPECT_TRUE(accepts());
  book.polls(begin + milliseconds(3001));
  EXPECT_FALSE(accepts());
}

TEST_F(RefusedDeviceTest, BeginsWithTheFirstPauseAgainWhenADeviceOpened) {
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

// The client opens it again at once.
TEST_F(RefusedDeviceTest, WhatWasTakenAwayIsRefusedOnlyIfTheClientSaysSo) {
  const Nanos begin = w.now();
  w.disk("a").writable = true;
  w.until("the device is open", [&] { return w.state(device) == rnbd::DeviceState::open; });
  book.polls(begin);
  book.polled();
  book.event(rnbd::DeviceChanged{device, rnbd::DeviceState::closed, ENOTCONN, {}}, begin);
  book.polls(begin + seconds(100));
  EXPECT_TRUE(accepts());
}

}  // namespace
}  // namespace rtrs::sim
