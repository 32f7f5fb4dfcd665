#include "core/iwarp/writer.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/iwarp/test_receiver.hpp"

namespace rtrs::iwarp::test::writer_test {
namespace {

struct Out {
  explicit Out(std::size_t bytes = 4096, std::size_t pieces = 64)
      : arena(bytes, kUntouched), list(pieces), to(arena, list) {}
  explicit Out(Room room) : Out(room.arena_bytes, room.pieces) {}
  [[nodiscard]] ByteVector all() const {
    ByteVector octets;
    for (const Bytes& piece : to.pieces()) octets.insert(octets.end(), piece.begin(), piece.end());
    return octets;
  }
  ByteVector arena;
  std::vector<Bytes> list;
  Outgoing to;
};

TEST(Writer, BytesOfEachMessage) {
  Out out;
  Writer writer(false);
  const ByteVector abcde = text("abcde");
  const Bytes part = abcde;
  const auto written = [&out] {
    const ByteVector octets = out.all();
    EXPECT_EQ(octets.size(), out.to.total_bytes());
    out.to.clear();
    return octets;
  };
  ASSERT_TRUE(writer.empty_write(out.to));
  EXPECT_EQ(written(), hex("000E C1 40 00000000 0000000000000000 00000000"));
  ASSERT_TRUE(writer.write(0x11223344, 0x7f0000001003, {&part, 1}, out.to));
  EXPECT_EQ(written(), hex("0013 C1 40 11223344 00007F0000001003 6162636465 000000 00000000"));
  ASSERT_TRUE(writer.write(0x11223344, 0x7f0000001003, {}, out.to));
  EXPECT_EQ(written(), hex("000E C1 40 00000000 0000000000000000 00000000"));
  ASSERT_TRUE(writer.write_immediate(0x11223344, 3, {&part, 1}, 0xdeadbeef, out.to));
  EXPECT_EQ(written(), hex("0013 C1 40 11223344 0000000000000003 6162636465 000000 00000000"
                           "001A 41 48 00000000 00000000 00000001 00000000 DEADBEEF 00000000 00000000"));
  ASSERT_TRUE(writer.write_immediate(0x11223344, 3, {}, 5, out.to));
  EXPECT_EQ(written(), hex("001A 41 48 00000000 00000000 00000002 00000000 00000005 00000000 00000000"));
  ASSERT_TRUE(writer.send(part, out.to));
  EXPECT_EQ(written(), hex("0017 41 43 00000000 00000000 00000003 00000000 6162636465 000000 00000000"));
  ASSERT_TRUE(writer.send_immediate({}, 0x01020304, out.to));
  EXPECT_EQ(written(), hex("0012 41 45 01020304 00000000 00000004 00000000 00000000"));
  ASSERT_TRUE(writer.send_invalidate(0xabcdef01, out.to));
  EXPECT_EQ(written(), hex("0012 41 44 ABCDEF01 00000000 00000005 00000000 00000000"));
  ASSERT_TRUE(writer.terminate(Fault::message_too_long, out.to));
  EXPECT_EQ(written(), hex("0016 41 47 00000000 00000002 00000001 00000000 12050000 00000000"));
}

TEST(Writer, Crc) {
  Out out;
  Writer writer(true);
  const ByteVector abcde = text("abcde");
  const Bytes parts[] = {Bytes(abcde).first(2), {}, Bytes(abcde).subspan(2)};
  ASSERT_TRUE(writer.write_immediate(0x11223344, 0x7f0000001003, parts, 0xdeadbeef, out.to));
  EXPECT_EQ(out.all(), hex("0013 C1 40 11223344 00007F0000001003 6162636465 000000 78B52154"
                           "001A 41 48 00000000 00000000 00000001 00000000 DEADBEEF 00000000 ABCF9EA0"));
}

TEST(Writer, NumbersWrap) {
  Out out;
  Writer writer(false, 0xffffffff);
  ASSERT_TRUE(writer.send({}, out.to) && writer.send_invalidate(1, out.to));
  ByteVector both = make(Untagged{.number = 0xffffffff});
  both += make(Untagged{.rdmap = 0x44, .field = 1, .number = 0});
  EXPECT_EQ(out.all(), both);
}

// Tests payloads of one or two full segments, and payloads with one more byte, which need another segment.
TEST(Writer, SegmentsOf60KiB) {
  constexpr std::size_t kFull = 61440;
  const ByteVector data = filled(2 * kFull + 1, 5);
  for (const std::size_t size : {kFull, kFull + 1, 2 * kFull, 2 * kFull + 1}) {
    ByteVector wanted;
    ByteVector wanted_send;
    for (std::size_t at = 0; at < size; at += kFull) {
      const std::size_t n = std::min(kFull, size - at);
      const ByteVector payload(data.begin() + static_cast<std::ptrdiff_t>(at),
                               data.begin() + static_cast<std::ptrdiff_t>(at + n));
      const bool last = at + n == size;
      wanted += make(Tagged{.ddp = last ? 0xc1U : 0x81U, .key = 9, .to = 100 + at, .payload = payload});
      wanted_send += make(Untagged{
          .ddp = last ? 0x41U : 0x01U, .offset = static_cast<std::uint32_t>(at), .payload = payload});
    }
    const Bytes part = Bytes(data).first(size);
    Out out(room_for_write(size));
    ASSERT_TRUE(Writer(false).write(9, 100, {&part, 1}, out.to));
    EXPECT_EQ(out.all(), wanted);
    Out send(room_for_send(size));
    ASSERT_TRUE(Writer(false).send(part, send.to));
    EXPECT_EQ(send.all(), wanted_send);
  }
}

// Adjacent memory becomes one piece: a write with immediate has three pieces, most responses have only one.
TEST(Writer, AdjacentPiecesAreMerged) {
  Out out;
  Writer writer(false);
  const ByteVector data = filled(4096, 1);
  const Bytes parts[] = {Bytes(data).first(1000), Bytes(data).subspan(1000)};
  ASSERT_TRUE(writer.write_immediate(1, 0, parts, 1, out.to));
  ASSERT_EQ(out.to.pieces().size(), 3U);
  EXPECT_EQ(out.to.pieces()[1].data(), data.data());
  EXPECT_EQ(out.to.pieces()[1].size(), 4096U);
  ASSERT_TRUE(writer.write_immediate(1, 0, parts, 2, out.to));
  EXPECT_EQ(out.to.pieces().size(), 5U);
  out.to.clear();
  for (unsigned i = 0; i < 32; ++i) ASSERT_TRUE(writer.write_immediate(0, 0, {}, i, out.to));
  ASSERT_EQ(out.to.pieces().size(), 1U);
  EXPECT_EQ(out.to.pieces()[0].size(), 32U * 32U);
}

// If there is no room, a write must change neither the list nor the next message number.
TEST(Writer, WithoutRoomNothingChanges) {
  const ByteVector data = filled(100, 1);
  const Bytes part = data;
  const auto each = [&part](Writer& writer, unsigned which, Outgoing& out) {
    switch (which) {
      case 0:
        return writer.empty_write(out);
      case 1:
        return writer.write(1, 0, {&part, 1}, out);
      case 2:
        return writer.write_immediate(1, 0, {&part, 1}, 1, out);
      case 3:
        return writer.send(part, out);
      case 4:
        return writer.send_immediate(part, 1, out);
      case 5:
        return writer.send_invalidate(1, out);
      default:
        return writer.terminate(Fault::bad_crc, out);
    }
  };
  const Room rooms[] = {kRoomForControl,    room_for_write(100), room_for_write(100), room_for_send(100),
                        room_for_send(100), room_for_send(0),    kRoomForControl};
  for (unsigned which = 0; which < 7; ++which) {
    Writer writer(false);
    for (const Room less : {Room{1, 0}, Room{0, 1}}) {
      Out small(Room{rooms[which].arena_bytes - less.arena_bytes, rooms[which].pieces - less.pieces});
      EXPECT_FALSE(each(writer, which, small.to)) << which;
      EXPECT_TRUE(small.to.pieces().empty());
      EXPECT_EQ(small.to.total_bytes(), 0U);
    }
    Out enough(rooms[which]);
    EXPECT_TRUE(each(writer, which, enough.to)) << which;
    Out next;
    ASSERT_TRUE(writer.send({}, next.to));
    EXPECT_EQ(next.all(), make(Untagged{.number = which >= 2 && which <= 5 ? 2U : 1U})) << which;
  }
}

// For payloads of all sizes and parts, the pieces fit the announced room and the data arrives as it was sent.
RC_GTEST_PROP(Writer, ArrivesAsItWasSent, ()) {
  const bool crc = *rc::gen::arbitrary<bool>();
  const auto first = *rc::gen::element(1U, 0xfffffffeU);
  Writer writer(crc, first);
  TestMemory memory(1U << 21U);
  memory.windows[77] = {.base = 0x5000, .at = 0, .length = 1U << 20U};
  Receiver end(memory,
               {.role = Role::initiator, .crc = crc, .send_with_immediate = true, .first_number = first});
  Lines wanted;
  const ByteVector data = filled(200'000, 3);
  const auto count = *rc::gen::inRange(1, 8);
  for (int i = 0; i < count; ++i) {
    const auto size =
        *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 70), rc::gen::inRange<std::size_t>(0, 200'000),
                        rc::gen::inRange<std::size_t>(61'430, 61'450));
    const auto cut = *rc::gen::inRange<std::size_t>(0, size + 1);
    const Bytes parts[] = {Bytes(data).first(cut), Bytes(data).subspan(cut, size - cut)};
    const auto to = *rc::gen::inRange<std::size_t>(0, 1000);
    const auto imm = *rc::gen::arbitrary<std::uint32_t>();
    const Bytes whole = Bytes(data).first(size);
    const auto what = *rc::gen::inRange(0, 5);
    Out out(what < 2 ? room_for_write(size) : room_for_send(size));
    memory.post(1U << 20U, 200'000);
    switch (what) {
      case 0:
        RC_ASSERT(writer.write(77, 0x5000 + to, parts, out.to));
        break;
      case 1:
        RC_ASSERT(writer.write_immediate(77, 0x5000 + to, parts, imm, out.to));
        wanted.push_back(words(Event(Immediate{imm})));
        break;
      case 2:
        RC_ASSERT(writer.send(whole, out.to));
        wanted.push_back(words(Event(Message{std::nullopt, whole})));
        break;
      case 3:
        RC_ASSERT(writer.send_immediate(whole, imm, out.to));
        wanted.push_back(words(Event(Message{imm, whole})));
        break;
      default:
        memory.offered.insert(imm);
        RC_ASSERT(writer.send_invalidate(imm, out.to));
        wanted.push_back(words(Event(Invalidated{imm, {}})));
        break;
    }
    end.feed_or_place(out.all(), *rc::gen::inRange<std::size_t>(1, 100'000));
    RC_ASSERT(end.seen == wanted);
    RC_ASSERT(end.stream.between_messages());
    if (what < 2 && size != 0) RC_ASSERT(memory.at(to, size) == ByteVector(whole.begin(), whole.end()));
  }
}

}  // namespace
}  // namespace rtrs::iwarp::test::writer_test
