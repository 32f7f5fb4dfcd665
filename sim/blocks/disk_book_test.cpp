// Tests of the rules of DiskBook, with histories that it must accept or reject.
#include "sim/disks/disk_book.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim::disk_book_test {
namespace {

constexpr DeviceHandle kDevice = 7;

// A DiskBook without a world: only the test changes its disk.
class DiskBookTest : public testing::Test {
 protected:
  DiskBookTest() : disk(disks.add("a", kSectors, book)) {
    disk.geometry.max_discard_sectors = disk.geometry.max_write_zeroes_sectors = kSectors;
    book.mapped(kDevice, "a", AccessMode::read_write);
  }
  // Starts an IO. Returns its first message, with `sectors` sectors.
  block::StartStorage begin(Opcode opcode, bool fua, std::uint32_t sectors = 8) {
    const BlockRequest request = book.open(kDevice, opcode, 0, 8, fua, false, 0, 0);
    block::StartStorage action;
    action.opcode = opcode;
    action.bytes = static_cast<std::uint32_t>(sectors * kDiskSector);
    action.prio = request.prio;
    return action;
  }
  // Passes the operation to storage, long after any loss, and executes it. Returns false if the book reports
  // a violation.
  bool accepts(const block::StartStorage& action) {
    failure.clear();
    book.judge_request(action, "a", seconds(100));
    book.served(action);
    return failure.empty();
  }

  std::string failure;
  Disks::Fail fail = [this](const std::string& what) { failure = what; };
  ZeroChoice choice;
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

TEST_F(DiskBookTest, RequestMayBeResentAfterALoss) {
  const auto action = begin(Opcode::write, false);
  EXPECT_TRUE(accepts(action));
  book.note_loss(seconds(99));
  EXPECT_TRUE(accepts(action));
  EXPECT_TRUE(accepts(action)) << "old messages may be in flight for some time";
}

// Messages of the old connection arrive long after the loss, because the next path connected late.
TEST_F(DiskBookTest, OldMessageMayArriveBesidesTheResentOne) {
  const auto action = begin(Opcode::write, false);
  book.note_loss(seconds(80));
  const auto later = begin(Opcode::write, false);
  EXPECT_TRUE(accepts(action));
  EXPECT_TRUE(accepts(action));
  EXPECT_FALSE(accepts(action));
  EXPECT_TRUE(accepts(later));
  EXPECT_FALSE(accepts(later)) << "nothing was lost since its submission";
}

TEST_F(DiskBookTest, ChangeWithFlushMayRestartEachTimeItsDeviceIsOpened) {
  disk.fua = false;
  const auto action = begin(Opcode::write, true);
  EXPECT_TRUE(accepts(action));
  ++disk.openings;
  EXPECT_TRUE(accepts(action));
  EXPECT_FALSE(accepts(action));
}

TEST_F(DiskBookTest, FuaWriteWithoutFlushDoesNotRestart) {
  const auto action = begin(Opcode::write, true);
  EXPECT_TRUE(accepts(action));
  ++disk.openings;
  EXPECT_FALSE(accepts(action));
  const auto discard = begin(Opcode::discard, true);
  EXPECT_TRUE(accepts(discard));
  ++disk.openings;
  EXPECT_TRUE(accepts(discard)) << "only a write is durable by itself";
}

TEST_F(DiskBookTest, PartOfAChangeMayRestartEachTimeItsCacheIsReplaced) {
  const auto part = begin(Opcode::write, false, 4), whole = begin(Opcode::write, false);
  EXPECT_TRUE(accepts(part));
  EXPECT_TRUE(accepts(whole));
  ++disk.caches;
  EXPECT_TRUE(accepts(part));
  EXPECT_FALSE(accepts(part));
  EXPECT_FALSE(accepts(whole));
}

TEST_F(DiskBookTest, CacheReplacedBeforeTheRequestDoesNotCount) {
  ++disk.caches;
  const auto part = begin(Opcode::write, false, 4);
  EXPECT_TRUE(accepts(part));
  EXPECT_FALSE(accepts(part));
}

TEST_F(DiskBookTest, RequestReportsTheErrnoOfItsStorage) {
  BlockClient client(BlockClientOptions{}, nullptr);
  book.begins(client);
  const auto ends = [&](std::initializer_list<int> failures, std::uint16_t error) {
    const auto action = begin(Opcode::read, false);
    for (const int one : failures) book.storage_failed(action, one);
    failure.clear();
    book.over({action.prio, error == 0 ? Errc::ok : Errc::peer_error, error}, 0);
    return failure;
  };
  EXPECT_EQ(ends({ENOSPC}, ENOSPC), "");
  EXPECT_EQ(ends({ENOSPC, EIO}, EIO), "") << "either message may be answered first";
  EXPECT_EQ(ends({ENOTCONN}, EIO), "");
  EXPECT_EQ(ends({524}, EIO), "");
  EXPECT_NE(ends({ENOSPC}, EIO), "");
  EXPECT_NE(ends({EIO}, ENOSPC), "");
  EXPECT_NE(ends({ENOSPC}, 0), "");
  EXPECT_NE(ends({}, ENOSPC), "");
}

TEST_F(DiskBookTest, LossIsReportedOnlyIfChangesAreNotFlushed) {
  BlockClient client(BlockClientOptions{}, nullptr);
  book.begins(client);
  const auto violation = [&] {
    failure.clear();
    book.event(rnbd::CacheReplaced{kDevice, 1}, 0);
    return failure;
  };
  const std::string kNone = "changes are lost only if no flush covers them";
  EXPECT_EQ(violation(), kNone);
  const auto done = [&](Opcode opcode, bool fua) {
    const BlockRequest request =
        book.open(kDevice, opcode, 0, opcode == Opcode::flush ? 0 : 8, fua, false, 0, 0);
    book.over({request.user_data, Errc::ok, 0}, 0);
  };
  done(Opcode::write, false);
  EXPECT_EQ(violation(), "");
  EXPECT_EQ(violation(), kNone) << "the changes were reported before";
  done(Opcode::write, true);
  EXPECT_EQ(violation(), kNone);
  done(Opcode::write, false);
  done(Opcode::flush, false);
  EXPECT_EQ(violation(), kNone);
  book.open(kDevice, Opcode::discard, 0, 8, false, false, 0, 0);
  EXPECT_EQ(violation(), "") << "a part of the discard may have succeeded";
}

// Storage executed changes and then lost them, and no process knows of the loss.
class OwedChangeTest : public DiskBookTest {
 protected:
  OwedChangeTest() { book.begins(client); }
  BlockRequest flush() { return book.open(kDevice, Opcode::flush, 0, 0, false, false, 0, 0); }
  void ends(const BlockRequest& flush, Errc result = Errc::ok, std::uint16_t error = 0) {
    disk.may_alarm = true;
    book.over({flush.user_data, result, error}, 0);
  }
  void end_with_loss(const BlockRequest& flush) { ends(flush, Errc::cache_lost, EIO); }
  void write() {
    const BlockRequest request = book.open(kDevice, Opcode::write, 0, 8, false, false, 0, 0);
    for (std::uint64_t at = 0; at < 8; ++at)
      disk.now[at] = DiskBook::stamp(disk.number, at, static_cast<std::uint32_t>(request.user_data));
    book.over({request.user_data, Errc::ok, 0}, 0);
  }
  void replace() { book.event(rnbd::CacheReplaced{kDevice, 1}, 0); }
  // Loses the changes, then completes a flush successfully. Returns the violation that the book reports.
  std::string report_after_loss() {
    for (std::size_t at = 0; at < 8; ++at) book.lost("a", at);
    failure.clear();
    ends(flush());
    return failure;
  }

  BlockClient client{BlockClientOptions{}, nullptr};
};

constexpr const char* kUnreportedLoss = "no flush of a succeeds although an acknowledged change is lost";

TEST_F(OwedChangeTest, FailedFlushReportsAllChangesBeforeTheCacheWasReplaced) {
  const BlockRequest early = flush();
  write();
  EXPECT_EQ(failure, "");
  replace();
  end_with_loss(early);
  EXPECT_EQ(report_after_loss(), "");
}

TEST_F(OwedChangeTest, FailedFlushDoesNotReportChangesOnTheNewCache) {
  write();
  replace();
  write();
  end_with_loss(flush());
  EXPECT_EQ(report_after_loss(), kUnreportedLoss);
}

TEST_F(OwedChangeTest, FlushThatFailedForAnotherReasonReportsNothing) {
  write();
  ends(flush(), Errc::peer_error, ENOSPC);
  EXPECT_EQ(report_after_loss(), kUnreportedLoss);
}

TEST_F(OwedChangeTest, ReplacedCacheWithoutAFailedFlushReportsNothing) {
  write();
  replace();
  EXPECT_EQ(report_after_loss(), kUnreportedLoss);
}

TEST_F(DiskBookTest, MessageLargerThanTheDiskLimitIsAViolation) {
  disk.geometry.max_discard_sectors = disk.geometry.max_write_zeroes_sectors = 7;
  for (const Opcode opcode : {Opcode::discard, Opcode::write_zeroes}) {
    EXPECT_FALSE(accepts(begin(opcode, false)));
    EXPECT_EQ(failure, "no message is larger than a takes");
    EXPECT_TRUE(accepts(begin(opcode, false, 7)));
  }
  EXPECT_TRUE(accepts(begin(Opcode::write, false)));
}

TEST_F(DiskBookTest, ClientMustKnowTheGeometryOfTheOpening) {
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
  EXPECT_FALSE(known(geometry)) << "not a whole number of blocks";
  geometry = disk.geometry;
  geometry.discard_alignment = 512;
  EXPECT_FALSE(known(geometry));
}

}  // namespace
}  // namespace rtrs::sim::disk_book_test
