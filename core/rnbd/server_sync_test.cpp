// Tests that a server reports a failure to make data durable until the device is reopened, although storage
// reports it only once.
#include <gtest/gtest.h>

#include "core/rnbd/test_server_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::test::server_sync_test {
namespace {

using namespace wire::linux_errno;
using wire::rnbd::Opcode;

TEST(ServerSync, CacheInstanceIsReportedAtEveryOpen) {
  Session session;
  session.instance = 0x0123456789abcdef;
  session.opened("disk");
  EXPECT_EQ(session.response().instance, 0x0123456789abcdefU);
  session.instance = 9;
  session.open("disk");
  EXPECT_EQ(session.response().instance, 0x0123456789abcdefU) << "the device is already open";
  session.opened("other");
  EXPECT_EQ(session.response().instance, 9U);
}

TEST(ServerSync, FlushesFailAfterAFailedFlushUntilTheDeviceIsReopened) {
  Session session;
  std::uint32_t id = session.opened("disk");
  const auto first = session.io(id, Opcode::flush);
  session.storage_done(kEnospc, true);
  EXPECT_EQ(session.errno_of(first), kEnospc);
  ASSERT_EQ(session.damaged.size(), 1U);
  EXPECT_EQ(session.damaged[0].handle, 100U);
  EXPECT_EQ(session.damaged[0].error, kEnospc);
  for (unsigned again = 0; again < 3; ++again) {
    EXPECT_EQ(session.errno_of(session.io(id, Opcode::flush)), kEnospc);
    EXPECT_TRUE(session.storage.empty()) << "storage would report success";
  }
  const auto write = session.io(id, Opcode::write);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(write), 0);
  session.close(id);
  id = session.opened("disk");
  const auto flush = session.io(id, Opcode::flush);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(flush), 0);
}

TEST(ServerSync, FlushInStorageFailsWithAConcurrentFailedFlush) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  session.io(id, Opcode::flush);
  const auto second = session.io(id, Opcode::flush);
  const auto read = session.io(id, Opcode::read);
  session.storage_done(kEio, true);
  session.storage_done(0);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(second), kEio);
  EXPECT_EQ(session.errno_of(read), 0);
}

// Storage reports the failure only to the first flush. The other flushes succeed, and storage reports them
// earlier.
TEST(ServerSync, FlushThatEndsBeforeAConcurrentFailureFailsToo) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  const auto first = session.io(id, Opcode::flush);
  const auto second = session.io(id, Opcode::flush);
  const auto durable = session.durable_write(id);
  const auto write = session.io(id, Opcode::write);
  session.storage_done_at(1, 0);
  session.storage_done_at(1, 0);
  EXPECT_EQ(session.errno_of(second), Session::kUnanswered);
  EXPECT_EQ(session.errno_of(durable), Session::kUnanswered);
  session.storage_done_at(1, 0);
  EXPECT_EQ(session.errno_of(write), 0) << "only syncs wait for syncs";
  session.storage_done(kEio, true);
  EXPECT_EQ(session.errno_of(first), kEio);
  EXPECT_EQ(session.errno_of(second), kEio);
  EXPECT_EQ(session.errno_of(durable), kEio);
  EXPECT_EQ(session.damaged.size(), 1U);
  EXPECT_EQ(session.devices.unanswered(), 0U);
}

// PREFLUSH makes earlier reported writes durable, so any operation with it counts as a sync.
TEST(ServerSync, PreflushFailsWithAConcurrentFailedFlush) {
  for (const Opcode opcode : {Opcode::write, Opcode::discard, Opcode::write_zeroes}) {
    Session session;
    const std::uint32_t id = session.opened("disk");
    session.io(id, Opcode::flush);
    const auto preflush = session.preflush(id, opcode);
    session.storage_done_at(1, 0);
    EXPECT_EQ(session.errno_of(preflush), Session::kUnanswered) << "the flush may still fail";
    session.storage_done(kEio, true);
    EXPECT_EQ(session.errno_of(preflush), kEio);
    EXPECT_EQ(session.errno_of(session.preflush(id, opcode)), kEio);
    EXPECT_TRUE(session.storage.empty()) << "storage would report success";
  }
}

TEST(ServerSync, FlushFailsWithAConcurrentFailedPreflush) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  session.preflush(id);
  const auto flush = session.io(id, Opcode::flush);
  session.storage_done_at(1, 0);
  EXPECT_EQ(session.errno_of(flush), Session::kUnanswered) << "the preflush may still fail";
  session.storage_done(kEio, true);
  EXPECT_EQ(session.errno_of(flush), kEio);
}

TEST(ServerSync, DurableWriteFailsOnlyWithAConcurrentFailure) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  const auto early = session.durable_write(id);
  session.io(id, Opcode::flush);
  session.storage_done_at(1, kEio, true);
  const auto late = session.durable_write(id);
  session.storage_done(0);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(early), kEio) << "its sync ran concurrently with the failed flush";
  EXPECT_EQ(session.errno_of(late), 0);
}

TEST(ServerSync, SuccessfulSyncWaitsOnlyForSyncsStartedBeforeIt) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  const std::uint32_t other = session.opened("other");
  session.io(other, Opcode::flush);
  const auto first = session.io(id, Opcode::flush);
  const auto second = session.io(id, Opcode::flush);
  session.storage_done_at(2, 0);
  const auto third = session.io(id, Opcode::flush);
  EXPECT_EQ(session.errno_of(second), Session::kUnanswered);
  session.storage_done_at(1, 0);
  EXPECT_EQ(session.errno_of(second), 0);
  EXPECT_EQ(session.errno_of(first), Session::kUnanswered) << "the third started before it succeeded";
  const auto closed = session.close(id);
  EXPECT_TRUE(session.closed.empty());
  session.storage_done_at(1, 0);
  EXPECT_EQ(session.errno_of(first), 0);
  EXPECT_EQ(session.errno_of(third), 0);
  EXPECT_EQ(session.errno_of(closed), 0);
}

TEST(ServerSync, MaximumUnansweredRequestsAreAnsweredInOneStep) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  for (unsigned i = 0; i < kMaxServerOperations; ++i) session.io(id, Opcode::flush);
  for (unsigned i = 1; i < kMaxServerOperations; ++i) session.storage_done_at(1, 0);
  EXPECT_EQ(session.devices.unanswered(), kMaxServerOperations);
  session.storage_done(kEio, true);
  EXPECT_EQ(session.devices.unanswered(), 0U);
}

TEST(ServerSync, FailedSyncOfAWriteFailsLaterFlushes) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  session.io(id, Opcode::write);
  session.storage_done(kEio, true);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::flush)), kEio);
}

TEST(ServerSync, OtherErrorsAffectOnlyTheirRequest) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  session.io(id, Opcode::write);
  session.storage_done(kEio);
  EXPECT_TRUE(session.damaged.empty());
  const auto flush = session.io(id, Opcode::flush);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(flush), 0);
}

// A request with an error that does not concern durability is answered after the export was measured. The
// syncs that waited for this request are answered earlier.
TEST(ServerSync, WaitingSyncIsAnsweredAfterAnUnrelatedFailure) {
  for (const bool preflush : {false, true}) {
    Session session;
    session.measures_automatically = false;
    const std::uint32_t id = session.opened("disk");
    const auto first = preflush ? session.preflush(id) : session.durable_write(id);
    const auto flush = session.io(id, Opcode::flush);
    const auto durable = session.durable_write(id);
    session.storage_done_at(1, 0);
    session.storage_done_at(1, 0);
    EXPECT_EQ(session.errno_of(flush), Session::kUnanswered) << "the first sync may still fail";
    session.storage_done(kEio);
    EXPECT_EQ(session.errno_of(flush), 0);
    EXPECT_EQ(session.errno_of(durable), 0);
    EXPECT_EQ(session.errno_of(first), Session::kUnanswered) << "the export is measured first";
    session.measured(0);
    EXPECT_EQ(session.errno_of(first), kEio);
    EXPECT_TRUE(session.damaged.empty());
    EXPECT_EQ(session.devices.unanswered(), 0U);
  }
}

TEST(ServerSync, FailureOfAnotherSessionIsReported) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  const std::uint32_t other = session.opened("other");
  const auto early = session.io(id, Opcode::flush);
  session.step(SyncFailed{100, kEio});
  session.step(SyncFailed{77, kEio});
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(early), kEio);
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::flush)), kEio);
  const auto sound = session.io(other, Opcode::flush);
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(sound), 0);
}

TEST(ServerSync, FailureOfAnotherSessionReachesADeviceThatIsClosing) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  const auto flush = session.io(id, Opcode::flush);
  session.close(id);
  session.step(SyncFailed{100, kEio});
  session.storage_done(0);
  EXPECT_EQ(session.errno_of(flush), kEio);
}

TEST(ServerSync, FailureWithoutErrnoIsReportedAsEio) {
  Session session;
  const std::uint32_t id = session.opened("disk");
  session.step(SyncFailed{100, 0});
  EXPECT_EQ(session.errno_of(session.io(id, Opcode::flush)), kEio);
}

}  // namespace
}  // namespace rtrs::rnbd::test::server_sync_test
