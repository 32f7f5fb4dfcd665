// Tests the estimated clock offset with generated frames.
#include "tools/lib/trace/roce/clock_offsets.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "tools/lib/trace/roce/cm.hpp"

namespace rtrs::roce::clock_offsets_test {
namespace {

constexpr std::int64_t kUs = 1000;
constexpr std::int64_t kMs = 1000 * kUs;
constexpr std::uint32_t kClientQp = 100;
constexpr std::uint32_t kServerQp = 200;

Address address(std::uint8_t last) {
  Address made;
  made.bytes[10] = made.bytes[11] = 0xff;
  made.bytes[15] = last;
  return made;
}

// Times in the tests are true times; the clock of `server` is ahead by `ahead`.
class ClockOffsetsTest : public testing::Test {
 protected:
  void frame(const Packet& packet, std::int64_t at) {
    const std::int64_t stamp = at + (packet.source == server ? ahead : 0);
    clocks.look(static_cast<std::uint64_t>(10'000 * kMs + stamp), packet);
  }
  void manage(CmAttribute attribute, std::int64_t at) {
    const bool reply = attribute == CmAttribute::reply;
    CmMessage message;
    message.attribute = attribute;
    // Uses different CM ids for each server.
    const std::uint32_t own = 2U * server.bytes[15];
    message.local_id = reply ? own + 1 : own;
    message.remote_id = reply ? own : own + 1;
    message.qpn = reply ? kServerQp : kClientQp;
    frame(cm_packet(reply ? server : client, reply ? client : server, 1, message), at);
  }
  void connect(std::int64_t at) {
    manage(CmAttribute::request, at);
    manage(CmAttribute::reply, at + 20 * kUs);
    manage(CmAttribute::ready, at + 40 * kUs);
  }
  Packet packet(bool to_server, Opcode opcode, std::uint32_t psn, std::uint8_t syndrome = 0) {
    Packet made;
    made.source = to_server ? client : server;
    made.destination = to_server ? server : client;
    made.dest_qp = to_server ? kServerQp : kClientQp;
    made.opcode = opcode;
    made.psn = psn;
    made.syndrome = syndrome;
    return made;
  }
  void send(bool to_server, std::uint32_t psn, std::int64_t at) {
    frame(packet(to_server, Opcode::send_only, psn), at);
  }
  void acknowledge(bool to_server, std::uint32_t psn, std::int64_t at, std::uint8_t syndrome = 0) {
    frame(packet(!to_server, Opcode::acknowledge, psn, syndrome), at);
  }
  // Adds a packet in each direction, each with its acknowledgement 20 us later.
  void exchange(std::uint32_t psn, std::int64_t at) {
    send(true, psn, at);
    acknowledge(true, psn, at + 20 * kUs);
    send(false, psn, at + 40 * kUs);
    acknowledge(false, psn, at + 60 * kUs);
  }
  // Returns the correction of server frames minus the correction of client frames.
  std::int64_t correction() {
    return clocks.correction(packet(false, Opcode::send_only, 0)) -
           clocks.correction(packet(true, Opcode::send_only, 0));
  }

  Address client = address(1);
  Address server = address(2);
  std::int64_t ahead = 0;
  ClockOffsets clocks;
};

TEST_F(ClockOffsetsTest, ConnectionSetupAloneGivesTheOffset) {
  for (const std::int64_t one : {5 * kMs, -5 * kMs}) {
    ahead = one;
    clocks = {};
    connect(0);
    clocks.finish();
    EXPECT_EQ(correction(), -ahead);
    EXPECT_EQ(std::abs(clocks.largest()), 5 * kMs);
  }
}

TEST_F(ClockOffsetsTest, OffsetIsFoundForEitherOrderOfTheAddresses) {
  std::swap(client, server);
  ahead = 5 * kMs;
  connect(0);
  exchange(7, kMs);
  clocks.finish();
  EXPECT_EQ(correction(), -ahead);
}

TEST_F(ClockOffsetsTest, OneClockHasNoOffset) {
  connect(0);
  for (std::uint32_t psn = 0; psn < 10; ++psn) exchange(psn, kMs * (psn + 1));
  clocks.finish();
  EXPECT_EQ(correction(), 0);
  EXPECT_EQ(clocks.largest(), 0);
}

TEST_F(ClockOffsetsTest, OffsetAboveTheMaximumIsIgnored) {
  ahead = 101 * kMs;
  connect(0);
  exchange(7, kMs);
  clocks.finish();
  EXPECT_EQ(correction(), 0);
}

// The capture lacks the first copy of a packet, so the acknowledgement is before the retransmission. There is
// only one clock, so no offset must be found.
TEST_F(ClockOffsetsTest, RetransmissionIsNoOffset) {
  connect(0);
  exchange(7, kMs);
  acknowledge(true, 8, 2 * kMs);
  send(true, 8, 4 * kMs);
  clocks.finish();
  EXPECT_EQ(correction(), 0);
}

TEST_F(ClockOffsetsTest, RepeatedCmMessagesAreIgnored) {
  ahead = 5 * kMs;
  connect(0);
  manage(CmAttribute::request, 80 * kMs);
  manage(CmAttribute::ready, 90 * kMs);
  clocks.finish();
  EXPECT_EQ(correction(), -ahead);
}

// The sequence number is used again later, after a wrap of the 24 bits or by another queue pair.
TEST_F(ClockOffsetsTest, PacketsFarApartAreNoCauseAndEffect) {
  ahead = 5 * kMs;
  connect(0);
  exchange(7, kMs);
  acknowledge(true, 8, 2 * kMs);
  send(true, 8, 2'000 * kMs);
  send(true, 9, 2'001 * kMs);
  acknowledge(true, 9, 5'000 * kMs);
  clocks.finish();
  EXPECT_EQ(correction(), -ahead);
}

// A NAK does not acknowledge the packet whose number it contains, because that packet was not accepted.
TEST_F(ClockOffsetsTest, NakIsNoAcknowledgementOfItsPacket) {
  connect(0);
  exchange(7, kMs);
  constexpr std::uint8_t kSequenceNak = 3 << 5;
  acknowledge(true, 8, 2 * kMs, kSequenceNak);
  send(true, 8, 2 * kMs + 10 * kUs);
  acknowledge(true, 8, 2 * kMs + 30 * kUs);
  clocks.finish();
  EXPECT_EQ(correction(), 0);
  EXPECT_EQ(clocks.largest(), 0);
}

TEST_F(ClockOffsetsTest, LargestOffsetHasTheLargestAbsoluteValue) {
  ahead = 2 * kMs;
  connect(0);
  server = address(3);
  ahead = -9 * kMs;
  connect(100 * kMs);
  server = address(4);
  ahead = 4 * kMs;
  connect(200 * kMs);
  clocks.finish();
  EXPECT_EQ(std::abs(clocks.largest()), 9 * kMs);
}

// One address pair has traffic in both directions; another pair of the same two hosts has traffic in one
// direction.
TEST_F(ClockOffsetsTest, OneWayAddressPairUsesAFittingOffset) {
  ahead = -5 * kMs;
  connect(0);
  const Address first = server;
  server = address(3);
  manage(CmAttribute::request, kMs);
  manage(CmAttribute::reply, kMs + 20 * kUs);  // the reply has an earlier time stamp than the request
  clocks.finish();
  EXPECT_EQ(correction(), 5 * kMs);
  server = first;
  EXPECT_EQ(correction(), 5 * kMs);
}

TEST_F(ClockOffsetsTest, OneWayAddressPairIgnoresOffsetsThatDoNotFit) {
  ahead = -2 * kMs;
  connect(0);
  server = address(3);
  ahead = -5 * kMs;
  manage(CmAttribute::request, kMs);
  manage(CmAttribute::reply, kMs + 20 * kUs);
  const Address behind = server;
  server = address(4);
  ahead = 5 * kMs;
  manage(CmAttribute::reply, 2 * kMs);
  manage(CmAttribute::ready, 2 * kMs + 20 * kUs);
  clocks.finish();
  EXPECT_EQ(correction(), 0);
  server = behind;
  EXPECT_EQ(correction(), 0);
}

}  // namespace
}  // namespace rtrs::roce::clock_offsets_test
