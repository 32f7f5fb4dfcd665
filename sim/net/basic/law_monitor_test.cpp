// Feeds hand-made histories to the law monitor. The monitor must accept a legal history, and must find a
// violation in each history that one of the planted network bugs S1 to S10 would produce.
#include "sim/net/basic/test_story.hpp"

namespace rtrs::sim::law_monitor_test {
namespace {

TEST_F(Story, LegalWriteWithImmediate) {
  receives(1);
  post(0, Op::write, false);
  post(1, Op::write_imm);
  place(0, 4);
  place(0);
  execute(0, Op::write);
  place(1);
  execute(1, Op::write_imm);
  numbered(Kind::acknowledged, 2);
  numbered(Kind::completed, 1);
  report(0, Op::write_imm, 1);
  plain(Kind::qp_disconnected, kClient);
  plain(Kind::qp_closed, kClient);
  expect_clean();
}

TEST_F(Story, S1ReorderedMessagesOfOneQueuePair) {
  receives(2);
  post(0, Op::send);
  post(1, Op::send);
  execute(1, Op::send);
  expect_broken(1);
}

TEST_F(Story, S2OldPacketReachesANewQueuePair) {
  post(0, Op::send);
  plain(Kind::qp_disconnected, kClient);
  connect(kOther, kOther + 1);
  receives(1, kOther + 1);
  execute(0, Op::send, 10, kOther + 1, kClient);
  expect_broken(13);
}

TEST_F(Story, S3FlushLeavesOutUnsignalled) {
  post(0, Op::write, false);
  post(1, Op::write, true);
  broke(kClient, Ending::local_error);
  numbered(Kind::completed, 1, Ending::local_error);
  expect_broken(7);
}

TEST_F(Story, S3NoFlushAtAllBeforeClosing) {
  post(0, Op::write, false);
  plain(Kind::qp_disconnected, kClient);
  plain(Kind::qp_closed, kClient);
  expect_broken(7);
}

TEST_F(Story, S4SuccessWithoutEffect) {
  post(0, Op::write);
  numbered(Kind::completed, 0);
  expect_broken(4);
}

TEST_F(Story, S4OnAWeakNetworkSuccessMeansCopied) {
  LawMonitor::Options options;
  options.done_means_delivered = false;
  monitor = LawMonitor(options);
  connect(kClient, kServer);
  post(0, Op::write);
  numbered(Kind::acknowledged, 1);
  numbered(Kind::completed, 0);
  expect_clean();
}

TEST_F(Story, S5EffectsAreNotAPrefix) {
  post(0, Op::write);
  post(1, Op::write);
  place(1);
  expect_broken(1);
}

TEST_F(Story, S6DoubleReceive) {
  receives(2);
  post(0, Op::send);
  execute(0, Op::send);
  execute(0, Op::send);
  expect_broken(2);
}

TEST_F(Story, S6ReportedTwice) {
  receives(1);
  post(0, Op::send);
  execute(0, Op::send);
  report(0, Op::send, 0);
  report(0, Op::send, 0);
  expect_broken(2);
}

TEST_F(Story, S7OutageBelowTheBudgetBreaks) {
  link(Kind::link_cut);
  post(0, Op::write);
  now += kBudget - 1;
  broke(kClient, Ending::retry_exceeded);
  expect_broken(12);
}

TEST_F(Story, S7RetriesRunOutAfterTheOutage) {
  link(Kind::link_cut);
  post(0, Op::write);
  link(Kind::link_healed);
  now += kBudget * 2;
  broke(kClient, Ending::retry_exceeded);
  expect_broken(12);
}

TEST_F(Story, OutageAboveTheBudgetBreaksTheRequesterOnly) {
  link(Kind::link_cut, Way::to_client);
  post(0, Op::write);
  place(0);
  execute(0, Op::write);
  now += kBudget;
  broke(kClient, Ending::retry_exceeded);
  numbered(Kind::completed, 0, Ending::retry_exceeded);
  expect_clean();
  broke(kServer, Ending::remote_access);
  expect_broken(9);
}

TEST_F(Story, S8BadKeyWrites) {
  post(0, Op::write);
  NetworkEvent revoked;
  revoked.kind = Kind::key_revoked;
  revoked.node = kServerNode;
  revoked.rkey = kKey;
  tell(revoked);
  place(0);
  expect_broken(14);
}

TEST_F(Story, S8OutOfRangeWrites) {
  post(0, Op::write, true, 101);
  place(0, 101);
  expect_broken(14);
}

TEST_F(Story, S9FlushBeforeTheCause) {
  post(0, Op::write);
  post(1, Op::write);
  broke(kClient, Ending::local_error);
  numbered(Kind::completed, 0, Ending::flushed);
  expect_broken(7);
}

TEST_F(Story, S9CauseTwice) {
  post(0, Op::write);
  post(1, Op::write);
  broke(kClient, Ending::local_error);
  numbered(Kind::completed, 0, Ending::local_error);
  expect_clean();
  numbered(Kind::completed, 1, Ending::local_error);
  expect_broken(7);
}

TEST_F(Story, S10RnrErrorWithInfiniteRetries) {
  post(0, Op::send);
  broke(kClient, Ending::rnr_exceeded);
  expect_broken(10);
}

}  // namespace
}  // namespace rtrs::sim::law_monitor_test
