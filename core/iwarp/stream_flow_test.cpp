// Tests when a stream consumes bytes, when it waits, and when it ends.
#include <gtest/gtest.h>

#include "core/iwarp/stream.hpp"
#include "core/iwarp/test_receiver.hpp"

namespace rtrs::iwarp::test::stream_flow_test {
namespace {

constexpr std::uint32_t kKey = 0x11223344;
constexpr std::uint64_t kBase = 0x1000;

ByteVector front(const ByteVector& of, std::size_t size) {
  return {of.begin(), of.begin() + static_cast<std::ptrdiff_t>(size)};
}

ByteVector back(const ByteVector& of, std::size_t size) {
  return {of.end() - static_cast<std::ptrdiff_t>(size), of.end()};
}

class StreamFlow : public testing::TestWithParam<bool> {
 protected:
  StreamFlow() {
    memory.windows[kKey] = {.base = kBase, .at = 4096, .length = 65536};
    options.role = Role::initiator;
    options.crc = GetParam();
    staging.resize(options.crc ? kMaxFpduBytes : 0);
    options.staging = staging;
  }
  ByteVector write(std::uint64_t to, std::size_t size) const {
    return make(Tagged{.key = kKey, .to = to, .payload = filled(size, 7), .crc = options.crc});
  }
  TestMemory memory;
  ByteVector staging;
  Stream::Options options;
};

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCrc, StreamFlow, testing::Bool());

TEST_P(StreamFlow, StopsConsumingWithoutAReceive) {
  const ByteVector one = immediate(1, 1, options.crc);
  for (const std::size_t step : {one.size() * 2, std::size_t{1}, std::size_t{7}}) {
    Receiver end(memory, options);
    ByteVector both = one;
    both += immediate(2, 2, options.crc);
    for (std::size_t at = 0; at < both.size(); at += step)
      end.feed(Bytes(both).subspan(at, std::min(step, both.size() - at)));
    EXPECT_TRUE(end.stream.stalled());
    EXPECT_FALSE(end.stream.between_messages());
    EXPECT_TRUE(end.stream.wants().empty());
    EXPECT_GE(end.left_over(), one.size());
    EXPECT_EQ(end.seen, Lines{});
    memory.post_empty(1);
    end.feed({});
    EXPECT_EQ(end.seen, Lines{"imm 1"});
    EXPECT_TRUE(end.stream.stalled());
    memory.post_empty(1);
    end.feed({});
    EXPECT_FALSE(end.stream.stalled());
    EXPECT_EQ(end.seen, (Lines{"imm 1", "imm 2"}));
    EXPECT_EQ(end.left_over(), 0U);
  }
}

// Faults are reported at once, even if a receive is missing.
TEST_P(StreamFlow, FaultsDoNotWaitForReceives) {
  Receiver end(memory, options);
  end.feed(immediate(2, 1, options.crc));
  EXPECT_EQ(end.seen, Lines{violated(Fault::bad_number)});
  EXPECT_FALSE(end.stream.stalled());
}

// A write needs no receive, so it is placed even if an earlier message waits for a receive.
TEST_P(StreamFlow, WritesBeforeAWaitingMessageArePlaced) {
  Receiver end(memory, options);
  end.feed(write(kBase, 64));
  EXPECT_EQ(memory.at(4096, 64), filled(64, 7));
  end.feed(immediate(1, 1, options.crc));
  EXPECT_TRUE(end.stream.stalled());
}

TEST_P(StreamFlow, PayloadIsPlacedDirectly) {
  Receiver end(memory, options);
  const ByteVector all = write(kBase + 8, 1000);
  end.feed_or_place(Bytes(all).first(200), 1000);
  // wants() ends with the FPDU if CRC is on, and with the payload if CRC is off.
  EXPECT_EQ(end.stream.wants().size(), all.size() - 200 - (options.crc ? 0 : 4));
  const std::byte* const place =
      options.crc ? end.stream.wants().data() : memory.bytes.data() + 4104 + 200 - 16;
  EXPECT_EQ(end.stream.wants().data(), place);
  end.feed_or_place(Bytes(all).subspan(200), 1000);
  EXPECT_TRUE(end.stream.wants().empty());
  EXPECT_TRUE(end.stream.between_messages());
  EXPECT_EQ(memory.at(4104, 1000), filled(1000, 7));
  EXPECT_EQ(memory.at(4103, 1), hex("EE"));
  EXPECT_EQ(memory.at(5104, 1), hex("EE"));
}

TEST_P(StreamFlow, PlacingZeroBytesHasNoEffect) {
  Receiver end(memory, options);
  const ByteVector all = write(kBase, 100);
  end.feed(Bytes(all).first(50));
  std::vector<Event> list(1);
  Events events(list);
  const std::size_t wanted = end.stream.wants().size();
  end.stream.placed(0, memory, events);
  EXPECT_EQ(end.stream.wants().size(), wanted);
  end.feed(Bytes(all).subspan(50));
  EXPECT_EQ(memory.at(4096, 100), filled(100, 7));
}

// wants() never covers the header or payload of the next FPDU.
TEST_P(StreamFlow, WantsNothingOutsideAnFpdu) {
  Receiver end(memory, options);
  EXPECT_TRUE(end.stream.wants().empty());
  const ByteVector all = write(kBase, 10);
  for (const std::byte octet : all) {
    end.feed(Bytes(&octet, 1));
    EXPECT_LE(end.stream.wants().size(), all.size());
  }
  EXPECT_TRUE(end.stream.wants().empty());
}

TEST_P(StreamFlow, RevokedKeyAcceptsNoFurtherByte) {
  for (const bool place : {false, true}) {
    std::fill(memory.bytes.begin(), memory.bytes.end(), kUntouched);
    memory.windows[kKey] = {.base = kBase, .at = 4096, .length = 65536};
    Receiver end(memory, options);
    const ByteVector all = write(kBase, 1000);
    end.feed_or_place(Bytes(all).first(16 + 300), place ? 100 : 2000);
    memory.windows.erase(kKey);
    end.stream.key_died(kKey);
    EXPECT_EQ(end.stream.wants().empty(), !options.crc);
    end.feed(Bytes(all).subspan(16 + 300));
    EXPECT_EQ(end.seen, Lines{violated(Fault::unknown_key)});
    EXPECT_EQ(memory.at(4096 + 300, 800), ByteVector(800, kUntouched));
    EXPECT_EQ(memory.at(4096, 300), options.crc ? ByteVector(300, kUntouched) : front(filled(1000, 7), 300));
  }
}

TEST_P(StreamFlow, InvalidationOfAnotherKeyHasNoEffect) {
  Receiver end(memory, options);
  const ByteVector all = write(kBase, 1000);
  end.feed(Bytes(all).first(500));
  const std::size_t wanted = end.stream.wants().size();
  end.stream.key_died(kKey + 1);
  EXPECT_EQ(end.stream.wants().size(), wanted);
  EXPECT_NE(wanted, 0U);
}

// The stream calls resolve() before each further byte and uses its result.
TEST_P(StreamFlow, KeyWronglyReportedRevokedIsCheckedAgain) {
  // With CRC, resolve() is called once per segment, when the segment is complete.
  const unsigned asked = options.crc ? 1 : 11;
  Receiver end(memory, options);
  const ByteVector all = write(kBase + 1, 1000);
  end.feed(Bytes(all).first(100));
  end.stream.key_died(kKey);
  for (std::size_t at = 100; at < all.size(); at += 100)
    end.feed(Bytes(all).subspan(at, std::min<std::size_t>(100, all.size() - at)));
  EXPECT_EQ(end.stream.fault(), Fault::none);
  EXPECT_EQ(memory.at(4097, 1000), filled(1000, 7));
  EXPECT_EQ(memory.resolved, asked);
  end.feed(write(kBase, 10));
  EXPECT_EQ(memory.resolved, asked + 1);
}

// key_died() affects only the segment in progress; the next one is placed as usual. If resolve() returns a
// new destination for the rest of a segment, the rest goes there.
TEST_P(StreamFlow, RevokedKeyIsForgottenAfterItsSegment) {
  if (options.crc) memory.windows[kKey].at = 8192;
  Receiver end(memory, options);
  const ByteVector all = write(kBase, 1000);
  end.feed(Bytes(all).first(16 + 400));
  end.stream.key_died(kKey);
  memory.windows[kKey].at = 8192;
  end.feed(Bytes(all).subspan(16 + 400));
  EXPECT_EQ(memory.at(8192 + 400, 600), back(filled(1000, 7), 600));
  EXPECT_EQ(memory.at(8192, 400), options.crc ? front(filled(1000, 7), 400) : ByteVector(400, kUntouched));
  end.feed(Bytes(all).first(100));
  EXPECT_FALSE(end.stream.wants().empty());
  end.feed(Bytes(all).subspan(100));
  EXPECT_EQ(memory.at(8192, 1000), filled(1000, 7));
}

// Feeds padding of each length, byte by byte and in one piece.
TEST_P(StreamFlow, PaddingBelongsToItsFpdu) {
  for (const bool single : {true, false}) {
    Receiver end(memory, options);
    ByteVector all;
    for (std::uint32_t i = 1; i <= 8; ++i) {
      all += write(kBase + i * 16, i);
      all += immediate(i, i, options.crc);
    }
    memory.post_empty(8);
    for (std::size_t at = 0; at < all.size(); at += single ? 1 : all.size())
      end.feed(Bytes(all).subspan(at, single ? 1 : all.size()));
    EXPECT_EQ(end.seen, (Lines{"imm 1", "imm 2", "imm 3", "imm 4", "imm 5", "imm 6", "imm 7", "imm 8"}));
    for (std::size_t i = 1; i <= 8; ++i) EXPECT_EQ(memory.at(4096 + i * 16, i), filled(i, 7));
  }
}

// While a SEND is in progress, key_died() of any key has no effect on it.
TEST_P(StreamFlow, KeyInvalidationAffectsOnlyWrites) {
  options.send_with_immediate = true;
  Receiver end(memory, options);
  memory.post(0, 1000);
  const ByteVector all =
      make(Untagged{.rdmap = 0x45, .field = kKey, .payload = filled(500, 3), .crc = options.crc});
  end.feed(Bytes(all).first(100));
  end.stream.key_died(kKey);
  end.feed(Bytes(all).subspan(100));
  EXPECT_EQ(end.seen.size(), 1U);
  EXPECT_EQ(end.stream.fault(), Fault::none);
  EXPECT_EQ(memory.resolved, 0U);
}

TEST_P(StreamFlow, InputAfterAFaultIsDropped) {
  Receiver end(memory, options);
  memory.post_empty(1);
  end.stream.fail(Fault::no_receive);
  EXPECT_TRUE(end.stream.ended());
  EXPECT_EQ(end.stream.fault(), Fault::no_receive);
  end.stream.fail(Fault::bad_crc);
  EXPECT_EQ(end.stream.fault(), Fault::no_receive);
  end.feed(write(kBase, 10));
  end.feed(immediate(1, 1, options.crc));
  EXPECT_EQ(end.left_over(), 0U);
  EXPECT_EQ(end.seen, Lines{});
  EXPECT_EQ(memory.resolved + memory.taken, 0U);
  EXPECT_TRUE(end.stream.wants().empty());
}

TEST_P(StreamFlow, FailDropsTheHeldBackEvent) {
  options.role = Role::responder;
  Stream stream(options);
  memory.post_empty(1);
  std::vector<Event> list(1);
  Events events(list);
  const ByteVector one = immediate(1, 1, options.crc);
  EXPECT_EQ(stream.feed(one, memory, events), one.size());
  stream.fail(Fault::no_receive);
  events.clear();
  EXPECT_EQ(stream.feed({}, memory, events), 0U);
  EXPECT_TRUE(events.all().empty());
}

TEST_P(StreamFlow, FullEventListConsumesNothing) {
  Stream stream(options);
  memory.post_empty(2);
  std::vector<Event> list(1);
  Events events(list);
  ByteVector two = immediate(1, 1, options.crc);
  const std::size_t one = two.size();
  two += immediate(2, 2, options.crc);
  EXPECT_EQ(stream.feed(two, memory, events), one);
  EXPECT_EQ(stream.feed(Bytes(two).subspan(one), memory, events), 0U);
  EXPECT_EQ(memory.taken, 1U);
  events.clear();
  EXPECT_EQ(stream.feed(Bytes(two).subspan(one), memory, events), one);
  EXPECT_EQ(words(events.all()[0]), "imm 2");
}

}  // namespace
}  // namespace rtrs::iwarp::test::stream_flow_test
