// Tests connections of the fabric tcp in all shapes that a capture can contain.
#include <gtest/gtest.h>

#include "tools/lib/trace/iwarp/test_capture.hpp"

namespace rtrs::iwarp_capture::analyzer_test {
namespace {

using namespace test;

constexpr bool kToServer = Capture::kToServer;
constexpr bool kToClient = Capture::kToClient;

class Iwarp : public ::testing::TestWithParam<bool> {
 protected:
  bool crc = GetParam();
  Sender client{crc};
  Sender server{crc};
  Capture capture;
};
INSTANTIATE_TEST_SUITE_P(Crc, Iwarp, ::testing::Bool());

TEST_P(Iwarp, EveryKindOfMessageIsReported) {
  capture.open(crc);
  capture.send(kToServer, client.empty_write());
  capture.send(kToServer, client.write_imm(7, 0x1000, filled(200'000, 3), 11));
  capture.send(kToServer, client.send(filled(272, 4)));
  capture.send(kToClient, server.write(8, 0x2000, filled(4096, 5)));
  capture.send(kToClient, server.send_inv(9));
  capture.send(kToClient, server.write_imm(8, 0x3000, {}, 12));
  capture.send(kToClient, server.send_imm(filled(8, 6), 13));
  capture.acknowledge(kToServer);
  capture.fin(kToServer);
  capture.fin(kToClient);
  EXPECT_EQ(capture.finish(),
            (Lines{"> req", "< rep", "> write_imm 200000 imm 11 key 7", "> send 272", "< write 4096 key 8",
                   "< send_inv 0 key 9", "< write_imm 0 imm 12", "< send_imm 8 imm 13", "> closed"}));
  EXPECT_EQ(capture.messages[0].payload, filled(200'000, 3));
  EXPECT_EQ(capture.messages[0].remote_addr, 0x1000U);
  EXPECT_EQ(capture.messages[2].payload, filled(4096, 5));
}

TEST_P(Iwarp, WriteAndItsImmediateInDifferentSegmentsAreOneMessage) {
  capture.open(crc);
  const ByteVector both = client.write_imm(7, 0, filled(100, 1), 5);
  capture.send(kToServer, ByteVector(both.begin(), both.begin() + 120));
  EXPECT_EQ(capture.seen, (Lines{"> req", "< rep"}));
  capture.send(kToServer, ByteVector(both.begin() + 120, both.end()));
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> write_imm 100 imm 5 key 7"}));
}

TEST_P(Iwarp, AnAnswerBeforeItsRequestInTheCaptureWaitsForTheRequest) {
  capture.open(crc);
  const Segment ask = capture.segment(kToServer, client.send(filled(50, 1)));
  const Segment answer = capture.segment(kToClient, server.send(filled(60, 2)));
  const Segment thanks = capture.segment(kToServer);
  capture.take(thanks);
  capture.take(answer);
  capture.take(ask);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> send 50", "< send 60"}));
  EXPECT_EQ(capture.analyzer.counters().gaps, 0U);
}

TEST_P(Iwarp, RetransmittedAndReorderedSegmentsChangeNothing) {
  capture.open(crc);
  const Segment first = capture.segment(kToServer, client.send(filled(50, 1)));
  const Segment second = capture.segment(kToServer, client.send(filled(60, 2)));
  Segment overlapping = second;
  overlapping.sequence -= 8;
  overlapping.payload.insert(overlapping.payload.begin(), first.payload.end() - 8, first.payload.end());
  capture.take(second);
  capture.take(overlapping);
  capture.take(first);
  capture.take(first);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> send 50", "> send 60"}));
  EXPECT_EQ(capture.analyzer.counters().retransmitted, 1U);
  EXPECT_EQ(capture.analyzer.counters().gaps, 0U);
}

TEST_P(Iwarp, MessagesAfterALostSegmentAreFoundAgain) {
  capture.open(crc);
  capture.send(kToServer, client.send(filled(50, 1)));
  capture.lose(kToServer, client.write_imm(7, 0, filled(5000, 2), 1));
  capture.send(kToServer, client.write_imm(7, 0, filled(600, 3), 2));
  capture.send(kToServer, client.write_imm(7, 0, filled(700, 4), 3));
  capture.acknowledge(kToClient);
  capture.send(kToServer, client.write_imm(7, 0, filled(800, 5), 4));
  // The first write after the lost bytes may be the end of a longer one, so it is dropped.
  const Lines after{"> gap", "> write_imm 700 imm 3 key 7", "> write_imm 800 imm 4 key 7"};
  Lines expected{"> req", "< rep", "> send 50"};
  expected.insert(expected.end(), after.begin(), after.end());
  EXPECT_EQ(capture.finish(), expected);
  EXPECT_EQ(capture.analyzer.counters().gaps, 1U);
  EXPECT_GT(capture.analyzer.counters().lost_bytes, 5000U);
}

TEST_P(Iwarp, UserDataThatLooksLikeAnFpduIsNotTakenForOne) {
  capture.open(crc);
  Sender other(!crc);
  ByteVector data = filled(40, 1);
  const ByteVector fake = other.send_imm(filled(10, 2), 3);
  for (int i = 0; i < 3; ++i) data.insert(data.end(), fake.begin(), fake.end());
  data.resize(1000);
  const ByteVector whole = client.write_imm(7, 0, data, 1);
  // The first bytes, with the length of the FPDU, are lost.
  capture.lose(kToServer, ByteVector(whole.begin(), whole.begin() + 4));
  capture.send(kToServer, ByteVector(whole.begin() + 4, whole.end()));
  capture.acknowledge(kToClient);
  capture.send(kToServer, client.send(filled(70, 4)));
  capture.send(kToServer, client.send(filled(80, 4)));
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> gap", "> send 70", "> send 80"}));
}

TEST_P(Iwarp, LostBytesInsideAnFpduLoseOnlyItsMessage) {
  capture.open(crc);
  const ByteVector whole = client.write_imm(7, 0, filled(5000, 2), 1);
  capture.send(kToServer, ByteVector(whole.begin(), whole.begin() + 1000));
  capture.lose(kToServer, ByteVector(whole.begin() + 1000, whole.begin() + 2000));
  capture.send(kToServer, ByteVector(whole.begin() + 2000, whole.end()));
  capture.acknowledge(kToClient);
  capture.send(kToServer, client.write_imm(7, 0, filled(700, 4), 3));
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> gap", "> write_imm 700 imm 3 key 7"}));
}

TEST_P(Iwarp, FrameCutByTheSnapshotLengthLosesOnlyItsMessage) {
  capture.open(crc);
  Segment cut = capture.segment(kToServer, client.send(filled(300, 1)));
  cut.cut = 200;
  cut.payload.resize(cut.payload.size() - 200);
  capture.take(cut);
  capture.send(kToServer, client.send(filled(40, 2)));
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> gap", "> send 40"}));
}

TEST_P(Iwarp, LostEndOfAConnectionIsAGap) {
  capture.open(crc);
  capture.acknowledge(kToServer);
  capture.lose(kToServer, client.send(filled(30, 1)));
  capture.acknowledge(kToClient);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> gap"}));
}

TEST_P(Iwarp, GapPrecedesTheAnswerToALostMessage) {
  capture.open(crc);
  capture.lose(kToServer, client.write_imm(7, 0, filled(600, 1), 1));
  capture.send(kToClient, server.write_imm(8, 0, {}, 2));
  capture.acknowledge(kToServer);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> gap", "< write_imm 0 imm 2", "> gap"}));
}

TEST_P(Iwarp, GapPrecedesTheEndOfItsConnection) {
  for (const bool reset : {false, true}) {
    Capture one;
    one.open(crc);
    one.acknowledge(kToServer);
    one.lose(kToClient, Sender(crc).send(filled(30, 1)));
    one.lose(kToServer, Sender(crc).send(filled(30, 1)));
    one.acknowledge(kToServer);
    one.acknowledge(kToClient);
    Segment last = one.segment(kToServer);
    (reset ? last.rst : last.fin) = true;
    ++one.next[0];
    one.take(last);
    one.fin(kToClient);
    EXPECT_EQ(one.finish(), (Lines{"> req", "< rep", "> gap", "< gap", "> closed"}));
  }
}

TEST_P(Iwarp, MessagesThatTheClientDidNotAcknowledgeAreDropped) {
  capture.open(crc);
  capture.acknowledge(kToServer);
  capture.send(kToClient, server.send(filled(10, 1)));
  capture.acknowledge(kToServer);
  capture.send(kToClient, server.send(filled(20, 2)));
  Segment reset = capture.segment(kToServer);
  reset.rst = true;
  reset.ack = false;
  capture.take(reset);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "< send 10", "> closed"}));
  EXPECT_EQ(capture.analyzer.counters().unacknowledged, 1U);
}

TEST_P(Iwarp, UnacknowledgedMessageDelaysOtherEventsOnlyForASecond) {
  capture.open(crc);
  capture.acknowledge(kToServer);
  Segment without_ack = capture.segment(kToServer, client.send(filled(30, 1)));
  Segment unacknowledged = capture.segment(kToClient, server.send(filled(10, 2)));
  unacknowledged.acknowledgement = without_ack.sequence;
  capture.take(unacknowledged);
  capture.take(without_ack);
  EXPECT_EQ(capture.seen, (Lines{"> req", "< rep"}));
  capture.pause(2'000'000'000);
  Segment late = capture.segment(kToServer, client.send(filled(40, 3)));
  late.acknowledgement -= 1;
  capture.take(late);
  EXPECT_EQ(capture.seen, (Lines{"> req", "< rep", "> send 30", "> send 40"}));
  capture.acknowledge(kToServer);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> send 30", "> send 40", "< send 10"}));
}

TEST_P(Iwarp, InvalidMessageEndsItsDirection) {
  capture.open(crc);
  Sender other(crc);
  capture.send(kToServer, client.send(filled(10, 1)));
  capture.send(kToServer, other.send(filled(20, 2)));  // its number was used before
  capture.send(kToServer, client.send(filled(30, 3)));
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> send 10", "> gap"}));
  EXPECT_EQ(capture.analyzer.counters().faults, 1U);
  EXPECT_EQ(capture.analyzer.counters().first_fault, iwarp::Fault::bad_number);
  EXPECT_GT(capture.analyzer.counters().undecoded, 30U);
}

TEST_P(Iwarp, ConnectionsOnTheSamePortsAreDifferent) {
  capture.open(crc);
  capture.send(kToServer, client.send(filled(10, 1)));
  capture.next = {77, 88};
  capture.open(crc);
  capture.send(kToServer, Sender(crc).send(filled(20, 1)));
  EXPECT_EQ(capture.finish(),
            (Lines{"> req", "< rep", "> send 10", "> req of 1", "< rep of 1", "> send 20 of 1"}));
}

TEST_P(Iwarp, SetupWithoutTheTcpHandshakeIsEnough) {
  capture.send(kToServer, request(crc));
  capture.send(kToClient, reply(crc));
  capture.send(kToServer, client.send(filled(10, 1)));
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> send 10"}));
}

TEST_P(Iwarp, BytesThatPrecedeTheReplyInTheCaptureWait) {
  capture.handshake();
  capture.send(kToServer, request(crc));
  const Segment early = capture.segment(kToServer, client.send(filled(10, 1)));
  capture.take(early);
  capture.send(kToClient, reply(crc));
  capture.acknowledge(kToServer);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rep", "> send 10"}));
}

TEST(IwarpSetup, RejectEndsTheConnection) {
  Capture capture;
  capture.handshake();
  capture.send(Capture::kToServer, request(false));
  capture.send(Capture::kToClient, reply(false, false));
  capture.fin(Capture::kToClient);
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< rej"}));
}

TEST(IwarpSetup, LostReplyIsAGap) {
  Capture capture;
  capture.handshake();
  capture.send(Capture::kToServer, request(false));
  capture.lose(Capture::kToClient, reply(false));
  capture.send(Capture::kToServer, Sender(false).send(filled(10, 1)));
  EXPECT_EQ(capture.finish(), (Lines{"> req", "< gap"}));
  EXPECT_GT(capture.analyzer.counters().strangers, 0U);
}

TEST(IwarpSetup, ConnectionWithoutSetupIsCountedOnlyOnTheRtrsPort) {
  Capture late;
  late.send(Capture::kToServer, Sender(false).send(filled(10, 1)));
  late.send(Capture::kToClient, Sender(false).send(filled(10, 1)));
  EXPECT_EQ(late.finish(), Lines{});
  EXPECT_EQ(late.analyzer.counters().strangers, 2U);
  Capture other;
  Segment elsewhere = other.segment(Capture::kToServer, filled(100, 1));
  elsewhere.destination.port = 80;
  EXPECT_FALSE(other.take(elsewhere));
  EXPECT_EQ(other.analyzer.counters().segments, 0U);
}

TEST(IwarpSetup, TlsIsCountedFromItsBeginningAndFromItsMiddle) {
  Capture capture;
  ByteVector hello = filled(200, 1);
  hello[0] = std::byte{0x16};
  hello[1] = std::byte{3};
  hello[2] = std::byte{1};
  capture.handshake();
  capture.send(Capture::kToServer, hello);
  capture.send(Capture::kToClient, hello);
  EXPECT_EQ(capture.finish(), Lines{});
  EXPECT_EQ(capture.analyzer.counters().sealed, 2U);
  EXPECT_EQ(capture.analyzer.counters().strangers, 0U);
  Capture late;
  hello[0] = std::byte{0x17};
  late.send(Capture::kToClient, hello);
  EXPECT_EQ(late.analyzer.counters().sealed, 1U);
}

}  // namespace
}  // namespace rtrs::iwarp_capture::analyzer_test
