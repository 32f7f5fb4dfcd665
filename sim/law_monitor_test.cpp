// The monitor against hand-made histories: a legal one passes, and each kind of broken network is told.
#include "sim/law_monitor.hpp"

#include <gtest/gtest.h>

namespace rtrs::sim {
namespace {

using Kind = Happening::Kind;
using Op = WorkRequest::Op;

constexpr QpId kClient = 0;
constexpr QpId kServer = 1;
constexpr QpId kOther = 2;  // a later connection of the same client
constexpr NodeId kClientNode = 0;
constexpr NodeId kServerNode = 1;
constexpr std::uint32_t kKey = 77;
constexpr std::uint64_t kAddress = 4096;
constexpr Nanos kBudget = 1000;

// Tells the monitor a story in the words of the happenings.
class Story : public ::testing::Test {
 protected:
  Story() {
    connect(kClient, kServer);
    Happening granted;
    granted.kind = Kind::key_granted;
    granted.node = kServerNode;
    granted.rkey = kKey;
    granted.value = kAddress;
    granted.length = 100;
    tell(granted);
  }

  void tell(Happening h) {
    h.time = now;
    monitor.on(h);
  }
  void create(QpId qp, NodeId node) {
    Happening h;
    h.kind = Kind::qp_created;
    h.qp = qp;
    h.node = node;
    h.link = 0;
    h.value = kBudget;
    tell(h);
  }
  void plain(Kind kind, QpId qp, QpId peer = kNone) {
    Happening h;
    h.kind = kind;
    h.qp = qp;
    h.peer = peer;
    h.node = kServerNode;
    tell(h);
  }
  void connect(QpId client, QpId server) {
    create(client, kClientNode);
    plain(Kind::request_sent, client);
    plain(Kind::request_seen, client);
    create(server, kServerNode);
    plain(Kind::qp_paired, client, server);
    plain(Kind::established, client);
  }
  void link(Kind kind, Way way = Way::to_server) {
    Happening h;
    h.kind = kind;
    h.link = 0;
    h.way = way;
    tell(h);
  }
  void post(std::uint64_t wr, Op op, bool signalled = true, std::uint32_t length = 10, QpId qp = kClient) {
    Happening h;
    h.kind = Kind::posted;
    h.qp = qp;
    h.wr = wr;
    h.op = op;
    h.length = length;
    h.rkey = kKey;
    h.value = kAddress;
    h.flag = signalled;
    h.imm = static_cast<std::uint32_t>(wr);
    tell(h);
  }
  void place(std::uint64_t wr, std::uint32_t length = 10, std::uint32_t rkey = kKey,
             std::uint64_t address = kAddress) {
    Happening h;
    h.kind = Kind::placed;
    h.qp = kServer;
    h.peer = kClient;
    h.wr = wr;
    h.rkey = rkey;
    h.value = address;
    h.length = length;
    tell(h);
  }
  void execute(std::uint64_t wr, Op op, std::uint32_t length = 10, QpId at = kServer, QpId from = kClient) {
    Happening h;
    h.kind = Kind::executed;
    h.qp = at;
    h.peer = from;
    h.wr = wr;
    h.op = op;
    h.imm = static_cast<std::uint32_t>(wr);
    h.length = length;
    h.flag = op != Op::write;
    tell(h);
  }
  void numbered(Kind kind, std::uint64_t wr, Ending ending = Ending::success, QpId qp = kClient) {
    Happening h;
    h.kind = kind;
    h.qp = qp;
    h.wr = wr;
    h.ending = ending;
    tell(h);
  }
  void receives(std::uint32_t count, QpId qp = kServer) {
    Happening h;
    h.kind = Kind::receives_posted;
    h.qp = qp;
    h.length = count;
    tell(h);
  }
  void report(std::uint64_t serial, Op op, std::uint32_t imm, std::uint32_t length = 10) {
    Happening h;
    h.kind = Kind::reported;
    h.qp = kServer;
    h.wr = serial;
    h.op = op;
    h.imm = imm;
    h.length = length;
    tell(h);
  }
  void broke(QpId qp, Ending ending) {
    Happening h;
    h.kind = Kind::qp_broken;
    h.qp = qp;
    h.ending = ending;
    tell(h);
  }
  void expect_clean() {
    EXPECT_EQ(monitor.violation_count(), 0u)
        << "A" << monitor.violations()[0].law << ": " << monitor.violations()[0].text;
  }
  // Exactly this law was broken, and no other.
  void expect_broken(unsigned law) {
    ASSERT_NE(monitor.violation_count(), 0u);
    for (const Violation& violation : monitor.violations()) {
      EXPECT_EQ(violation.law, law) << violation.text;
      EXPECT_EQ(violation.time, now);
    }
  }

  LawMonitor monitor;
  Nanos now = 5;
};

TEST_F(Story, OfAWriteWithImmediate) {
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

TEST_F(Story, S5EffectIsNoPrefix) {
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

TEST_F(Story, S7OutageIsOverButBreaks) {
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
  Happening revoked;
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
  Happening refused;
  refused.kind = Kind::refused;
  refused.qp = kServer;
  refused.peer = kClient;
  tell(refused);
  expect_clean();
  broke(kClient, Ending::remote_access);
  expect_broken(9);
}

TEST_F(Story, GoodAccessRefused) {
  post(0, Op::write);
  Happening refused;
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

TEST_F(Story, LocalOperationJumpsTheQueue) {
  post(0, Op::write);
  Happening local;
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

TEST_F(Story, ArrivalOutOfNowhere) {
  report(0, Op::send, 1);
  expect_broken(17);
}

TEST_F(Story, ImmediateIsNotWhatWasSent) {
  receives(1);
  post(0, Op::send);
  execute(0, Op::send);
  report(0, Op::send, 99);
  expect_broken(17);
}

TEST_F(Story, ReceiveThatNobodyPosted) {
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
}  // namespace rtrs::sim
