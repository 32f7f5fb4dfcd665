#include "tools/urtrsd/storage/op_progress.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cerrno>
#include <vector>

namespace rtrs::daemon::op_progress_test {
namespace {

TEST(OpProgress, ShortReadContinuesWhereItStopped) {
  OpProgress progress(Opcode::read, 4096, 8192, {false});
  EXPECT_EQ(progress.step(), OpStep::read);
  progress.on_result(1000);
  EXPECT_EQ(progress.offset(), 5096U);
  EXPECT_EQ(progress.buffer_offset(), 1000U);
  EXPECT_EQ(progress.length(), 7192U);
  progress.on_result(7192);
  EXPECT_EQ(progress.step(), OpStep::done);
  EXPECT_EQ(progress.error(), 0);
}

TEST(OpProgress, FailedSyncsAreDistinguished) {
  const auto failed = [](Opcode opcode, bool fua, bool block_device, int error, bool zeroes_first) {
    OpProgress progress(opcode, 0, 512, {fua, block_device});
    if (zeroes_first) progress.on_result(0);
    progress.on_result(-error);
    EXPECT_EQ(progress.step(), OpStep::done);
    EXPECT_EQ(progress.error(), error);
    return progress.sync_failed();
  };
  EXPECT_TRUE(failed(Opcode::flush, false, false, EIO, false));
  EXPECT_TRUE(failed(Opcode::flush, false, true, ENOSPC, false));
  EXPECT_TRUE(failed(Opcode::write_zeroes, true, false, EIO, true)) << "the sync after the zeroes failed";
  EXPECT_FALSE(failed(Opcode::write_zeroes, true, false, EIO, false)) << "the change itself failed";
  EXPECT_TRUE(failed(Opcode::write, true, false, EIO, false)) << "waits for the whole file";
  EXPECT_FALSE(failed(Opcode::write, true, false, ENOSPC, false));
  EXPECT_FALSE(failed(Opcode::write, true, true, EIO, false)) << "no page cache";
  EXPECT_FALSE(failed(Opcode::write, false, false, EIO, false));
  EXPECT_FALSE(failed(Opcode::read, true, false, EIO, false));
}

TEST(OpProgress, ZeroBytesTransferredIsAnError) {
  for (const Opcode opcode : {Opcode::read, Opcode::write}) {
    OpProgress progress(opcode, 0, 512, {false});
    progress.on_result(0);
    EXPECT_EQ(progress.step(), OpStep::done);
    EXPECT_EQ(progress.error(), EIO);
  }
}

TEST(OpProgress, MoreBytesThanRequestedIsAnError) {
  OpProgress progress(Opcode::write, 0, 512, {false});
  progress.on_result(513);
  EXPECT_EQ(progress.error(), EIO);
}

TEST(OpProgress, RetriesAreBoundedAndForgottenOnProgress) {
  OpProgress progress(Opcode::write, 0, 1024, {false});
  for (std::uint32_t i = 0; i < OpProgress::kMaxStalls; ++i) progress.on_result(i % 2 ? -EINTR : -EAGAIN);
  EXPECT_EQ(progress.step(), OpStep::write);
  progress.on_result(512);
  for (std::uint32_t i = 0; i < OpProgress::kMaxStalls; ++i) progress.on_result(-EAGAIN);
  EXPECT_EQ(progress.step(), OpStep::write);
  progress.on_result(-EINTR);
  EXPECT_EQ(progress.step(), OpStep::done);
  EXPECT_EQ(progress.error(), EAGAIN);
}

TEST(OpProgress, WriteZeroesFallsBackTwice) {
  const std::uint32_t bytes = OpProgress::kZeroBytes + 512;
  OpProgress progress(Opcode::write_zeroes, 512, bytes, {true});
  EXPECT_EQ(progress.step(), OpStep::punch_hole);
  progress.on_result(-EOPNOTSUPP);
  EXPECT_EQ(progress.step(), OpStep::zero_range);
  progress.on_result(-EOPNOTSUPP);
  EXPECT_EQ(progress.step(), OpStep::write_zero_bytes);
  EXPECT_TRUE(progress.data_sync());
  EXPECT_EQ(progress.length(), OpProgress::kZeroBytes);
  progress.on_result(static_cast<std::int32_t>(OpProgress::kZeroBytes));
  EXPECT_EQ(progress.length(), 512U);
  EXPECT_EQ(progress.offset(), 512U + OpProgress::kZeroBytes);
  progress.on_result(512);
  EXPECT_EQ(progress.step(), OpStep::done);
  EXPECT_EQ(progress.error(), 0);
}

TEST(OpProgress, WriteZeroesMayUnmapABlockDevice) {
  OpProgress progress(Opcode::write_zeroes, 0, 4096, {false, true});
  EXPECT_EQ(progress.step(), OpStep::punch_hole);
  progress.on_result(-EOPNOTSUPP);
  EXPECT_EQ(progress.step(), OpStep::write_zero_bytes);
  progress.on_result(4096);
  EXPECT_EQ(progress.step(), OpStep::done);
  EXPECT_EQ(progress.error(), 0);
}

TEST(OpProgress, NounmapNeverPunchesAHole) {
  OpProgress file(Opcode::write_zeroes, 0, 4096, {false, false, true});
  EXPECT_EQ(file.step(), OpStep::zero_range);
  file.on_result(-EOPNOTSUPP);
  EXPECT_EQ(file.step(), OpStep::write_zero_bytes);
  const OpProgress block_device(Opcode::write_zeroes, 0, 4096, {false, true, true});
  EXPECT_EQ(block_device.step(), OpStep::write_zero_bytes);
}

TEST(OpProgress, PreflushComesFirstAndItsErrorEndsTheOperation) {
  for (const Opcode opcode : {Opcode::write, Opcode::read}) {
    OpProgress good(opcode, 0, 4096, {false, false, false, true});
    EXPECT_EQ(good.step(), OpStep::sync_data);
    good.on_result(0);
    EXPECT_EQ(good.step(), opcode == Opcode::write ? OpStep::write : OpStep::read);
    good.on_result(4096);
    EXPECT_EQ(good.step(), OpStep::done);
    OpProgress bad(opcode, 0, 4096, {false, false, false, true});
    bad.on_result(-EIO);
    EXPECT_EQ(bad.step(), OpStep::done);
    EXPECT_EQ(bad.error(), EIO);
  }
}

TEST(OpProgress, RangesAreSyncedForFua) {
  for (const Opcode opcode : {Opcode::discard, Opcode::write_zeroes}) {
    OpProgress durable(opcode, 0, 4096, {true});
    durable.on_result(0);
    EXPECT_EQ(durable.step(), OpStep::sync_data);
    durable.on_result(0);
    EXPECT_EQ(durable.step(), OpStep::done);
    OpProgress plain(opcode, 0, 4096, {false});
    plain.on_result(0);
    EXPECT_EQ(plain.step(), OpStep::done);
  }
}

TEST(OpProgress, ErrorsAreMappedForThePeer) {
  const auto outcome = [](Opcode opcode, int error) {
    OpProgress progress(opcode, 0, 4096, {false});
    progress.on_result(-error);
    EXPECT_EQ(progress.step(), OpStep::done);
    return progress.error();
  };
  EXPECT_EQ(outcome(Opcode::write, ENOSPC), 28);
  EXPECT_EQ(outcome(Opcode::write, EDQUOT), ENOSPC);
  EXPECT_EQ(outcome(Opcode::write, EBADF), EIO);
  EXPECT_EQ(outcome(Opcode::discard, EOPNOTSUPP), EOPNOTSUPP);
  EXPECT_EQ(outcome(Opcode::write_zeroes, ENOSPC), ENOSPC);
  EXPECT_EQ(outcome(Opcode::flush, EIO), EIO);
}

// Whatever the system calls return, every byte is transferred exactly once and in order, or an error is
// reported.
RC_GTEST_PROP(OpProgress, CoversTheRangeOnce, ()) {
  const auto bytes = *rc::gen::inRange<std::uint32_t>(1, 5000);
  OpProgress progress(Opcode::write, 100, bytes, {false});
  std::vector<int> touched(bytes, 0);
  while (progress.step() != OpStep::done) {
    RC_ASSERT(progress.offset() == 100 + progress.buffer_offset());
    RC_ASSERT(progress.buffer_offset() + progress.length() == bytes);
    const auto result =
        *rc::gen::oneOf(rc::gen::inRange<std::int32_t>(1, static_cast<std::int32_t>(progress.length()) + 1),
                        rc::gen::just<std::int32_t>(-EINTR), rc::gen::just<std::int32_t>(-EIO));
    for (std::int32_t i = 0; i < result; ++i)
      ++touched[progress.buffer_offset() + static_cast<std::uint32_t>(i)];
    progress.on_result(result);
  }
  const bool all_once = std::vector<int>(bytes, 1) == touched;
  RC_ASSERT(all_once == (progress.error() == 0));
}

}  // namespace
}  // namespace rtrs::daemon::op_progress_test
