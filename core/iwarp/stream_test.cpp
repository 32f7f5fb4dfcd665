// Tests the events and memory contents for valid input.
#include "core/iwarp/stream.hpp"

#include <gtest/gtest.h>

#include "core/iwarp/test_receiver.hpp"

namespace rtrs::iwarp::test::stream_test {
namespace {

constexpr std::uint32_t kKey = 0x11223344;
constexpr std::uint64_t kBase = 0x7f0000001000;

class StreamTest : public testing::Test {
 protected:
  StreamTest() {
    memory.windows[kKey] = {.base = kBase, .at = 4096, .length = 8192};
    initiator.role = Role::initiator;
  }
  TestMemory memory;
  Stream::Options initiator;
};

TEST_F(StreamTest, ImmediateWithoutWrite) {
  Receiver end(memory, initiator);
  memory.post_empty(1);
  end.feed(hex("001A 41 48 00000000 00000000 00000001 00000000 DEADBEEF 00000000 00000000"));
  EXPECT_EQ(end.seen, Lines{"imm 3735928559"});
  EXPECT_EQ(memory.taken, 1U);
  EXPECT_EQ(memory.resolved, 0U);
  EXPECT_TRUE(end.stream.between_messages());
}

// Only the first four of the eight bytes have a meaning; reserved bytes are ignored.
TEST_F(StreamTest, ReservedBytesAreIgnored) {
  Receiver end(memory, initiator);
  memory.post_empty(1);
  memory.post(0, 8);
  end.feed(hex("001A 7D 78 FFFFFFFF 00000000 00000001 00000000 00000007 FFFFFFFF FFFFFFFF"));
  end.feed(hex("0014 7D 73 FFFFFFFF 00000000 00000002 00000000 4142 0000 00000000"));
  EXPECT_EQ(end.seen, (Lines{"imm 7", "message 4142"}));
}

TEST_F(StreamTest, WriteWithImmediate) {
  Receiver end(memory, initiator);
  memory.post_empty(1);
  end.feed(hex("0013 C1 40 11223344 00007F0000001003 6162636465 000000 00000000"));
  EXPECT_EQ(end.seen, Lines{});
  EXPECT_EQ(memory.at(4096, 9), hex("EEEEEE 6162636465 EE"));
  end.feed(hex("001A 41 48 00000000 00000000 00000001 00000000 00000005 00000000 00000000"));
  EXPECT_EQ(end.seen, Lines{"imm 5"});
}

TEST_F(StreamTest, WriteOfSeveralSegments) {
  Receiver end(memory, initiator);
  end.feed(hex("0012 81 40 11223344 00007F0000001000 61626364 00000000"));
  EXPECT_FALSE(end.stream.between_messages());
  end.feed(hex("000F 81 40 11223344 00007F0000001004 65 000000 00000000"));
  end.feed(hex("0010 C1 40 11223344 00007F0000001005 6667 0000 00000000"));
  EXPECT_TRUE(end.stream.between_messages());
  EXPECT_EQ(end.seen, Lines{});
  EXPECT_EQ(memory.at(4096, 8), hex("61626364656667 EE"));
  EXPECT_EQ(memory.resolved, 3U);
}

// The last segment of a message may have no payload.
TEST_F(StreamTest, LastSegmentWithoutPayload) {
  Receiver end(memory, initiator);
  memory.post(0, 4);
  end.feed(make(Tagged{.ddp = 0x81, .key = kKey, .to = kBase, .payload = text("ab")}));
  end.feed(make(Tagged{.key = kKey, .to = kBase + 2}));
  end.feed(make(Untagged{.ddp = 0x01, .payload = text("cd")}));
  end.feed(make(Untagged{.offset = 2}));
  EXPECT_EQ(end.seen, Lines{"message 6364"});
}

TEST_F(StreamTest, Sends) {
  initiator.send_with_immediate = true;
  Receiver end(memory, initiator);
  for (std::size_t i = 0; i < 4; ++i) memory.post(i * 16, 16);
  memory.offered = {0xabcdef01, 0xabcdef02};
  end.feed(hex("0015 41 43 00000000 00000000 00000001 00000000 414243 00 00000000"));
  end.feed(hex("0014 41 45 01020304 00000000 00000002 00000000 4445 0000 00000000"));
  end.feed(hex("0012 41 44 ABCDEF01 00000000 00000003 00000000 00000000"));
  end.feed(hex("0013 41 46 ABCDEF02 00000000 00000004 00000000 46 000000 00000000"));
  EXPECT_EQ(end.seen, (Lines{"message 414243", "message imm 16909060 4445", "invalidated 2882400001 ",
                             "invalidated 2882400002 46"}));
  EXPECT_TRUE(memory.offered.empty());
  EXPECT_EQ(memory.taken, 4U);
}

// Unless agreed otherwise, the opcode is a plain SEND with Solicited Event.
TEST_F(StreamTest, SolicitedSendHasNoImmediateUnlessAgreed) {
  Receiver end(memory, initiator);
  memory.post(0, 16);
  end.feed(make(Untagged{.ddp = 0x01, .rdmap = 0x45, .field = 1, .payload = text("a")}));
  end.feed(make(Untagged{.rdmap = 0x45, .field = 2, .offset = 1, .payload = text("b")}));
  EXPECT_EQ(end.seen, Lines{"message 6162"});
}

TEST_F(StreamTest, SendOfSeveralSegmentsFillsItsReceive) {
  initiator.send_with_immediate = true;
  Receiver end(memory, initiator);
  memory.post(100, 5);
  end.feed(make(Untagged{.ddp = 0x01, .rdmap = 0x45, .field = 9, .payload = text("abc")}));
  EXPECT_EQ(memory.taken, 1U);
  EXPECT_EQ(end.seen, Lines{});
  end.feed(make(Untagged{.rdmap = 0x45, .field = 9, .offset = 3, .payload = text("de")}));
  EXPECT_EQ(end.seen, Lines{"message imm 9 6162636465"});
  EXPECT_EQ(memory.at(99, 7), hex("EE 6162636465 EE"));
}

TEST_F(StreamTest, MessageNumbersWrap) {
  initiator.first_number = 0xffffffff;
  Receiver end(memory, initiator);
  memory.post_empty(3);
  for (const std::uint32_t number : {0xffffffffU, 0U, 1U}) end.feed(immediate(number, number));
  EXPECT_EQ(end.seen, (Lines{"imm 4294967295", "imm 0", "imm 1"}));
}

TEST_F(StreamTest, ResponderMaySendAfterTheFirstFpdu) {
  Receiver end(memory);
  memory.post_empty(2);
  const ByteVector first = hex("000E C1 40 00000000 0000000000000000 00000000");
  EXPECT_FALSE(end.stream.may_send());
  end.feed(Bytes(first).first(first.size() - 1));
  EXPECT_FALSE(end.stream.may_send());
  end.feed(Bytes(first).last(1));
  EXPECT_TRUE(end.stream.may_send());
  end.feed(immediate(1, 4));
  end.feed(first);
  EXPECT_EQ(end.seen, (Lines{"greeted", "imm 4"}));
  EXPECT_EQ(memory.resolved, 0U);
  EXPECT_TRUE(Receiver(memory, initiator).stream.may_send());
}

TEST_F(StreamTest, GreetedIsReportedBeforeTheFirstMessage) {
  for (const std::size_t capacity : {1U, 2U}) {
    Receiver end(memory, {}, capacity);
    memory.post_empty(1);
    end.feed(immediate(1, 4));
    EXPECT_EQ(end.seen, (Lines{"greeted", "imm 4"}));
  }
}

TEST_F(StreamTest, InvalidFirstFpduReportsNoGreeted) {
  Receiver end(memory);
  memory.post_empty(1);
  end.feed(make(Untagged{.rdmap = 0x44, .field = 1}));
  EXPECT_EQ(end.seen, Lines{violated(Fault::bad_invalidation)});
  EXPECT_FALSE(end.stream.may_send());
}

TEST_F(StreamTest, EmptyWritesNeedNoKeyAndAreConsumedInBatches) {
  Receiver end(memory, initiator);
  const ByteVector one = make(Tagged{.key = 0xdead, .to = ~std::uint64_t{0}});
  ByteVector many;
  for (unsigned i = 0; i < Stream::kQuietFpdus + 3; ++i) many += one;
  std::vector<Event> list(4);
  Events events(list);
  EXPECT_EQ(end.stream.feed(many, memory, events), Stream::kQuietFpdus * one.size());
  EXPECT_EQ(end.stream.feed(Bytes(many).last(3 * one.size()), memory, events), 3 * one.size());
  EXPECT_TRUE(events.all().empty());
  EXPECT_EQ(memory.resolved, 0U);
  EXPECT_EQ(end.stream.fault(), Fault::none);
}

TEST_F(StreamTest, TerminateEndsTheStream) {
  for (const char* const bytes :
       {"0016 41 47 00000000 00000002 00000001 00000000 11020000 00000000",
        // The same message with the headers of the faulty segment appended.
        "0028 41 47 00000000 00000002 00000001 00000000 1102C000 0012 414300000000 00000000 00000001 "
        "00000000 0000 00000000"}) {
    Receiver end(memory);
    end.feed(hex(bytes));
    EXPECT_EQ(end.seen, (Lines{"greeted", "terminated 1/1/2"}));
    EXPECT_TRUE(end.stream.ended());
    EXPECT_EQ(end.stream.fault(), Fault::none);
    end.feed(immediate(1, 1));
    EXPECT_EQ(end.seen.size(), 2U);
    EXPECT_EQ(end.left_over(), 0U);
  }
}

TEST_F(StreamTest, TerminateMayInterruptAMessage) {
  Receiver end(memory, initiator);
  end.feed(make(Tagged{.ddp = 0x81, .key = kKey, .to = kBase, .payload = text("ab")}));
  end.feed(make(Untagged{.rdmap = 0x47, .queue = 2, .payload = hex("00000000")}));
  EXPECT_EQ(end.seen, Lines{"terminated 0/0/0"});
}

TEST_F(StreamTest, CrcOfTheWire) {
  initiator.crc = true;
  Receiver end(memory, initiator);
  memory.post_empty(2);
  end.feed(hex("0013 C1 40 11223344 00007F0000001003 6162636465 000000 78B52154"));
  end.feed(hex("001A 41 48 00000000 00000000 00000001 00000000 DEADBEEF 00000000 ABCF9EA0"));
  EXPECT_EQ(end.seen, Lines{"imm 3735928559"});
  EXPECT_EQ(memory.at(4099, 5), text("abcde"));
}

TEST_F(StreamTest, MessagesUpToTheLimit) {
  initiator.max_message = 5;
  for (const std::size_t last : {2U, 3U}) {
    Receiver write(memory, initiator);
    write.feed(make(Tagged{.ddp = 0x81, .key = kKey, .to = kBase, .payload = text("abc")}));
    write.feed(make(Tagged{.key = kKey, .to = kBase + 3, .payload = filled(last, 1)}));
    EXPECT_EQ(write.seen, last == 2 ? Lines{} : Lines{violated(Fault::write_too_long)});
    Receiver send(memory, initiator);
    memory.post(0, 64);
    send.feed(make(Untagged{.ddp = 0x01, .payload = text("abc")}));
    send.feed(make(Untagged{.offset = 3, .payload = text("de")}));
    send.feed(make(Untagged{.number = 2, .payload = filled(last + 3, 1)}));
    memory.post(0, 64);
    send.feed({});
    EXPECT_EQ(send.seen.size(), 2U);
    EXPECT_EQ(send.stream.fault(), last == 2 ? Fault::none : Fault::message_too_long);
  }
}

// The limit applies to the sum of all segments.
TEST_F(StreamTest, LimitOfAMessageOfManySegments) {
  initiator.max_message = 5;
  Receiver write(memory, initiator);
  Receiver send(memory, initiator);
  memory.post(0, 64);
  for (std::uint32_t at = 0; at < 6; at += 2) {
    EXPECT_EQ(write.seen.size() + send.seen.size(), 0U);
    write.feed(make(Tagged{.ddp = 0x81, .key = kKey, .to = kBase + at, .payload = text("ab")}));
    send.feed(make(Untagged{.ddp = 0x01, .offset = at, .payload = text("ab")}));
  }
  EXPECT_EQ(write.seen, Lines{violated(Fault::write_too_long)});
  EXPECT_EQ(send.seen, Lines{violated(Fault::message_too_long)});
}

TEST_F(StreamTest, ReceiveOfAMessageOfManySegments) {
  Receiver end(memory, initiator);
  memory.post(0, 5);
  for (std::uint32_t at = 0; at < 6; at += 2) {
    EXPECT_EQ(end.seen, Lines{});
    end.feed(make(Untagged{.ddp = 0x01, .offset = at, .payload = text("ab")}));
  }
  EXPECT_EQ(end.seen, Lines{violated(Fault::message_too_long)});
  EXPECT_EQ(memory.at(0, 5), hex("61626162 EE"));
}

}  // namespace
}  // namespace rtrs::iwarp::test::stream_test
