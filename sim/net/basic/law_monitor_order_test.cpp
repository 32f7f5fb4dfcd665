// Tests of the laws of order, queue pair lifetime, keys and connection management.
#include "sim/net/basic/test_story.hpp"

namespace rtrs::sim::law_monitor_order_test {
namespace {

TEST_F(Story, CompletionsOutOfOrder) {
  for (std::uint64_t wr = 0; wr < 2; ++wr) {
    post(wr, Op::write);
    place(wr);
    execute(wr, Op::write);
  }
  numbered(Kind::acknowledged, 2);
  numbered(Kind::completed, 1);
  expect_broken(3);
}

TEST_F(Story, ImmediateBeforeItsPayload) {
  receives(1);
  post(0, Op::write_imm);
  place(0, 9);
  execute(0, Op::write_imm);
  expect_broken(5);
}

TEST_F(Story, RefusedRequesterBreaksAlone) {
  post(0, Op::write, true, 500);
  NetworkEvent refused;
  refused.kind = Kind::refused;
  refused.qp = kServer;
  refused.peer = kClient;
  tell(refused);
  expect_clean();
  broke(kClient, Ending::remote_access);
  expect_broken(9);
}

TEST_F(Story, ValidAccessRefused) {
  post(0, Op::write);
  NetworkEvent refused;
  refused.kind = Kind::refused;
  refused.qp = kServer;
  refused.peer = kClient;
  tell(refused);
  expect_broken(14);
}

TEST_F(Story, DeadQueuePairExecutes) {
  receives(1);
  post(0, Op::send);
  plain(Kind::qp_disconnected, kServer);
  execute(0, Op::send);
  expect_broken(13);
}

TEST_F(Story, GhostReachesTheOldPeer) {
  receives(1);
  post(0, Op::send);
  broke(kClient, Ending::local_error);
  numbered(Kind::completed, 0, Ending::local_error);
  plain(Kind::qp_disconnected, kClient);
  plain(Kind::qp_closed, kClient);
  execute(0, Op::send);
  report(0, Op::send, 0);
  expect_clean();
}

TEST_F(Story, LocalOperationOvertakesEarlierWork) {
  post(0, Op::write);
  NetworkEvent local;
  local.kind = Kind::posted;
  local.qp = kClient;
  local.wr = 1;
  local.local = true;
  tell(local);
  local.kind = Kind::executed;
  local.peer = kClient;
  tell(local);
  expect_broken(15);
}

TEST_F(Story, ConnectRequestSeenTwice) {
  plain(Kind::request_seen, kClient);
  expect_broken(16);
}

TEST_F(Story, EstablishedTwice) {
  plain(Kind::established, kClient);
  expect_broken(16);
}

TEST_F(Story, ArrivalWithoutAPost) {
  report(0, Op::send, 1);
  expect_broken(17);
}

TEST_F(Story, ReportedImmediateDiffersFromTheSentOne) {
  receives(1);
  post(0, Op::send);
  execute(0, Op::send);
  report(0, Op::send, 99);
  expect_broken(17);
}

TEST_F(Story, ArrivalWithoutAPostedReceive) {
  post(0, Op::send);
  execute(0, Op::send);
  expect_broken(17);
}

TEST_F(Story, CompletionAfterAnOverrun) {
  post(0, Op::write);
  place(0);
  execute(0, Op::write);
  plain(Kind::overrun, kClient);
  numbered(Kind::completed, 0);
  expect_broken(18);
}

}  // namespace
}  // namespace rtrs::sim::law_monitor_order_test
