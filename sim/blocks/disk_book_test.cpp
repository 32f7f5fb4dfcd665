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
  DiskBookTest() : disk(disks.add("a", kSectors, book)) {
    disk.geometry.max_discard_sectors = disk.geometry.max_write_zeroes_sectors = kSectors;
    book.mapped(kDevice, "a", AccessMode::read_write);
  }
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

// Long after the loss: the next path took its time.
TEST_F(DiskBookTest, WhatALostPathHadUnderWayMayComeBesidesWhatIsAskedForAgain) {
  const auto action = begin(Opcode::write, false);
  book.something_lost(seconds(80));
  const auto later = begin(Opcode::write, false);
  EXPECT_TRUE(accepts(action));
  EXPECT_TRUE(accepts(action));
  EXPECT_FALSE(accepts(action));
  EXPECT_TRUE(accepts(later));
  EXPECT_FALSE(accepts(later)) << "nothing was lost since it was made";
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

TEST_F(DiskBookTest, ChangesAreLostOnlyWhereSomeAreNotFlushed) {
  BlockClient client(BlockClientOptions{}, nullptr);
  book.begins(client);
  const auto told = [&] {
    failure.clear();
    book.event(rnbd::CacheReplaced{kDevice, 1}, 0);
    return failure;
  };
  const std::string kNone = "changes are lost only where there are some that no flush covers";
  EXPECT_EQ(told(), kNone);
  const auto done = [&](Opcode opcode, bool fua) {
    const BlockRequest request =
        book.open(kDevice, opcode, 0, opcode == Opcode::flush ? 0 : 8, fua, false, 0, 0);
    book.over({request.user_data, Errc::ok, 0}, 0);
  };
  done(Opcode::write, false);
  EXPECT_EQ(told(), "");
  EXPECT_EQ(told(), kNone) << "they were told";
  done(Opcode::write, true);
  EXPECT_EQ(told(), kNone);
  done(Opcode::write, false);
  done(Opcode::flush, false);
  EXPECT_EQ(told(), kNone);
}

// Changes that storage has done, and that are gone when nobody knows it yet but the disk.
class OwedChangeTest : public DiskBookTest {
 protected:
  OwedChangeTest() { book.begins(client); }
  BlockRequest flush() { return book.open(kDevice, Opcode::flush, 0, 0, false, false, 0, 0); }
  void ends(const BlockRequest& flush, Errc result = Errc::ok, std::uint16_t error = 0) {
    disk.may_alarm = true;
    book.over({flush.user_data, result, error}, 0);
  }
  void tells(const BlockRequest& flush) { ends(flush, Errc::cache_lost, EIO); }
  void write() {
    const BlockRequest request = book.open(kDevice, Opcode::write, 0, 8, false, false, 0, 0);
    for (std::uint64_t at = 0; at < 8; ++at)
      disk.now[at] = DiskBook::stamp(disk.number, at, static_cast<std::uint32_t>(request.user_data));
    book.over({request.user_data, Errc::ok, 0}, 0);
  }
  void replace() { book.event(rnbd::CacheReplaced{kDevice, 1}, 0); }
  // What the book says when they are lost and a flush succeeds.
  std::string of_a_loss() {
    for (std::size_t at = 0; at < 8; ++at) book.lost("a", at);
    failure.clear();
    ends(flush());
    return failure;
  }

  BlockClient client{BlockClientOptions{}, nullptr};
};

constexpr const char* kUntold = "no flush of a succeeds over a change that was acknowledged and is lost";

TEST_F(OwedChangeTest, AFlushThatFailedForAReplacedCacheSpeaksForAllThatEndedBeforeTheCacheWasReplaced) {
  const BlockRequest early = flush();
  write();
  EXPECT_EQ(failure, "");
  replace();
  tells(early);
  EXPECT_EQ(of_a_loss(), "");
}

TEST_F(OwedChangeTest, ItDoesNotSpeakForWhatEndedOnTheNewCache) {
  write();
  replace();
  write();
  tells(flush());
  EXPECT_EQ(of_a_loss(), kUntold);
}

TEST_F(OwedChangeTest, AFlushThatFailedOtherwiseSpeaksForNoChangeThatIsThere) {
  write();
  ends(flush(), Errc::peer_error, ENOSPC);
  EXPECT_EQ(of_a_loss(), kUntold);
}

TEST_F(OwedChangeTest, NorDoesAReplacedCacheAsLongAsNoFlushToldSo) {
  write();
  replace();
  EXPECT_EQ(of_a_loss(), kUntold);
}

TEST_F(DiskBookTest, NoMessageIsLargerThanItsDiskTakes) {
  disk.geometry.max_discard_sectors = disk.geometry.max_write_zeroes_sectors = 7;
  for (const Opcode opcode : {Opcode::discard, Opcode::write_zeroes}) {
    EXPECT_FALSE(accepts(begin(opcode, false)));
    EXPECT_EQ(failure, "no message is larger than a takes");
    EXPECT_TRUE(accepts(begin(opcode, false, 7)));
  }
  EXPECT_TRUE(accepts(begin(Opcode::write, false)));
}

TEST_F(DiskBookTest, ADeviceIsKnownAsItWasOpened) {
  BlockClient client(BlockClientOptions{}, nullptr);
  book.begins(client);
  disk.geometry.nsectors = 64;
  disk.geometry.logical_block_size = 1024;
  const auto known = [&](const rnbd::Geometry& geometry) {
    failure.clear();
    book.event(rnbd::DeviceChanged{kDevice, rnbd::DeviceState::open, 0, geometry}, 0);
    return failure.empty();
  };
  rnbd::Geometry geometry = disk.geometry;
  EXPECT_TRUE(known(geometry));
  geometry.nsectors = 128;
  EXPECT_TRUE(known(geometry)) << "it grew";
  geometry.nsectors = 129;
  EXPECT_FALSE(known(geometry)) << "no whole number of blocks";
  geometry = disk.geometry;
  geometry.discard_alignment = 512;
  EXPECT_FALSE(known(geometry));
}

// A book of its own beside a world, whose client it looks at.
class BesideAWorld : public testing::Test {
 protected:
  explicit BesideAWorld(const BlockOptions& how)
      : scenario(block_world_of(how)), world(options(), seeded), w(world) {
    w.add_disk("a", kSectors);
    w.start_server();
    w.start_client();
    w.until("the session is up", [&] { return w.link_up(); });
  }
  // From now on the book looks, and nothing of the world moves on.
  void look() {
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
  // What the book says of the waits when so much time has passed.
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

class OpenDeviceTest : public BesideAWorld {
 protected:
  OpenDeviceTest() : BesideAWorld({}) {
    device = open(w, "a");
    w.until("nothing is under way", [&] { return w.client().session().inflight() == 0; });
    look();
  }
  // What the book says when a request ends because its device is gone.
  std::string gone() {
    const Nanos later = w.now() + milliseconds(1);
    const BlockRequest request = book.open(device, Opcode::read, 0, 8, false, false, later, later);
    failure.clear();
    book.over({request.user_data, Errc::peer_error, ENOTCONN}, later);
    return failure;
  }
};

TEST_F(OpenDeviceTest, WhatItsClientHoldsIsHeldForQueueTimeout) {
  book.open(device, Opcode::read, 0, 8, false, false, w.now(), w.now());
  EXPECT_EQ(waits(0), "");
  EXPECT_EQ(waits(seconds(3)), "");
  EXPECT_EQ(waits(seconds(3) + milliseconds(2)),
            "a request waits for its device to be open for queue_timeout and no longer");
}

constexpr const char* kOnce = "a request does not fail because its device was taken away once";

TEST_F(OpenDeviceTest, NoRequestEndsBecauseItsDeviceWasTakenAwayOnce) {
  EXPECT_EQ(gone(), kOnce);
  for (unsigned times = 1; times < rnbd::kMaxFutileReopens; ++times) book.taken_away("a", w.now());
  EXPECT_EQ(gone(), kOnce);
  book.taken_away("a", w.now());
  EXPECT_EQ(gone(), "");
}

// Nobody opens it again where its session ended.
TEST_F(OpenDeviceTest, NorOneOfADeviceThatIsBeingUnmappedUnlessItsSessionEnded) {
  w.submit(device, Opcode::read, 0, 8);
  w.unmap(device);
  ASSERT_EQ(w.client().state(device), rnbd::DeviceState::unmapping);
  EXPECT_EQ(gone(), kOnce);
  book.session_closed(w.now());
  EXPECT_EQ(gone(), "");
}

// An OPEN that is not answered ends its path, and the other one is there.
class UnansweredOpenTest : public BesideAWorld {
 protected:
  UnansweredOpenTest() : BesideAWorld({.opening = seconds(1000), .request_timeout = seconds(2)}) {
    device = static_cast<DeviceHandle>(w.map("a"));
    w.until("the OPEN has failed", [&] { return w.messages_under_way() == 0; });
    look();
  }
};

TEST_F(UnansweredOpenTest, IsAskedForAgainInTime) {
  ASSERT_TRUE(w.link_up());
  EXPECT_EQ(waits(0), "");
  EXPECT_EQ(waits(BlockClient::kRetryPause), "");
  EXPECT_EQ(waits(BlockClient::kRetryPause + milliseconds(2)),
            "a device that is not open is asked for again in time");
}

// The server refuses to open the device again.
class RefusedDeviceTest : public BesideAWorld {
 protected:
  RefusedDeviceTest() : BesideAWorld({}) {
    device = open(w, "a");
    w.disk("a").writable = false;
    w.take_away("a");
    w.submit(device, Opcode::read, 0, 8);
    w.until("the device is refused", [&] { return w.client().refused(device); });
    look();
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
