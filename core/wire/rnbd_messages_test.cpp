#include "core/wire/rnbd_messages.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "core/wire/test_bytes.hpp"

namespace rtrs::wire::rnbd::rnbd_messages_test {
namespace {

using test::Buffer;

Open any_open() {
  const auto length = *rc::gen::inRange<std::size_t>(1, 255);
  const auto mode = *rc::gen::element(AccessMode::read_only, AccessMode::read_write, AccessMode::migration);
  return Open{mode, make_name(std::string(length, 'd')).value};
}

OpenRsp any_open_rsp() {
  OpenRsp m;
  m.device_id = *rc::gen::arbitrary<std::uint32_t>();
  m.nsectors = *rc::gen::inRange<std::uint64_t>(0, kMaxSectors);
  m.max_hw_sectors = *rc::gen::arbitrary<std::uint32_t>();
  m.max_write_zeroes_sectors = *rc::gen::arbitrary<std::uint32_t>();
  m.max_discard_sectors = *rc::gen::arbitrary<std::uint32_t>();
  m.discard_granularity = *rc::gen::arbitrary<std::uint32_t>();
  m.discard_alignment = *rc::gen::arbitrary<std::uint32_t>();
  m.physical_block_size = *rc::gen::arbitrary<std::uint16_t>();
  m.logical_block_size = static_cast<std::uint16_t>(512U << *rc::gen::inRange(0, 7));
  m.max_segments = *rc::gen::arbitrary<std::uint16_t>();
  m.secure_discard = *rc::gen::arbitrary<std::uint16_t>();
  m.cache_policy = *rc::gen::arbitrary<std::uint8_t>();
  m.features = *rc::gen::arbitrary<std::uint8_t>();
  return m;
}

Io any_io() {
  Io io;
  io.device_id = *rc::gen::arbitrary<std::uint32_t>();
  io.sector = *rc::gen::inRange<std::uint64_t>(0, kMaxSectors >> 1);
  io.opcode = static_cast<Opcode>(*rc::gen::inRange(0, 6));
  io.sync = *rc::gen::arbitrary<bool>();
  io.fua = *rc::gen::arbitrary<bool>();
  io.preflush = *rc::gen::arbitrary<bool>();
  io.nounmap = *rc::gen::arbitrary<bool>();
  io.size = *rc::gen::arbitrary<std::uint32_t>();
  io.prio = *rc::gen::arbitrary<std::uint16_t>();
  return io;
}

template <class Message, class Parse>
void check_both_ways(const Message& message, Parse parse) {
  const Buffer good = test::encoded(message);
  const auto parsed = parse(Bytes{good});
  RC_ASSERT(parsed.why == Refusal::none);
  RC_ASSERT(parsed.value == message);
  test::check_stable(test::damaged(good), parse);
}

RC_GTEST_PROP(Rnbd, SessInfoBothWays, (std::uint8_t version)) {
  check_both_ways(SessInfo{version}, [](Bytes b) { return parse_sess_info(b); });
  check_both_ways(SessInfoRsp{version}, [](Bytes b) { return parse_sess_info_rsp(b); });
}

RC_GTEST_PROP(Rnbd, OpenBothWays, ()) {
  check_both_ways(any_open(), [](Bytes b) { return parse_open(b); });
}

RC_GTEST_PROP(Rnbd, OpenRspBothWays, ()) {
  check_both_ways(any_open_rsp(), [](Bytes b) { return parse_open_rsp(b); });
}

RC_GTEST_PROP(Rnbd, CloseBothWays, (std::uint32_t device_id)) {
  check_both_ways(Close{device_id}, [](Bytes b) { return parse_close(b); });
}

RC_GTEST_PROP(Rnbd, IoBothWays, ()) {
  check_both_ways(any_io(), [](Bytes b) { return parse_io(b); });
}

// Kernel senders build messages on the stack without zeroing them.
RC_GTEST_PROP(Rnbd, GarbageInReservedBytesIsIgnored, (std::uint8_t garbage)) {
  const auto fill_with_garbage =
      [garbage](Buffer bytes, std::initializer_list<std::pair<std::size_t, std::size_t>> ranges) {
        for (const auto& range : ranges) {
          for (std::size_t i = range.first; i < range.second; ++i)
            bytes.at(i) = static_cast<std::byte>(garbage);
        }
        return bytes;
      };
  const Io io = any_io();
  RC_ASSERT(parse_io(fill_with_garbage(test::encoded(io), {{2, 4}, {26, 32}})).value == io);
  Io unknown = io;
  unknown.unknown_flags = garbage * 0x01010000U;
  RC_ASSERT(parse_io(fill_with_garbage(test::encoded(io), {{18, 20}})).value == unknown);
  const Open open = any_open();
  const std::size_t after_nul = 6 + open.device_name.view().size() + 1;
  RC_ASSERT(parse_open(fill_with_garbage(test::encoded(open), {{2, 4}, {5, 6}, {after_nul, 264}})).value ==
            open);
  const OpenRsp rsp = any_open_rsp();
  RC_ASSERT(parse_open_rsp(fill_with_garbage(test::encoded(rsp), {{2, 4}, {44, 45}, {47, 48}})).value == rsp);
  RC_ASSERT(parse_close(fill_with_garbage(test::encoded(Close{9}), {{2, 4}})).value == Close{9});
  RC_ASSERT(parse_sess_info(fill_with_garbage(test::encoded(SessInfo{2}), {{2, 4}, {5, 36}})).value ==
            SessInfo{2});
}

TEST(Rnbd, ShortMessagesAreRefused) {
  const auto refused_below = [](const Buffer& good, std::size_t least, auto parse) {
    for (std::size_t size = 0; size < least; ++size) {
      const test::Exact cut{Bytes{good}.first(size)};
      EXPECT_EQ(parse(cut.view()).why, Refusal::too_short) << size;
    }
    EXPECT_EQ(parse(Bytes{good}.first(least)).why, Refusal::none);
  };
  OpenRsp rsp;
  rsp.logical_block_size = 512;
  refused_below(test::encoded(SessInfo{}), 36, [](Bytes b) { return parse_sess_info(b); });
  refused_below(test::encoded(SessInfoRsp{}), 36, [](Bytes b) { return parse_sess_info_rsp(b); });
  refused_below(test::encoded(Open{{}, make_name("d").value}), 264, [](Bytes b) { return parse_open(b); });
  refused_below(test::encoded(rsp), 56, [](Bytes b) { return parse_open_rsp(b); });
  refused_below(test::encoded(Close{}), 8, [](Bytes b) { return parse_close(b); });
  refused_below(test::encoded(Io{}), 28, [](Bytes b) { return parse_io(b); });
  refused_below(test::encoded(Io{}), 4, [](Bytes b) { return message_type(b); });
}

TEST(Rnbd, WrongTypesAreRefused) {
  const Buffer io = test::encoded(Io{});
  EXPECT_EQ(parse_close(io).why, Refusal::bad_type);
  EXPECT_EQ(parse_io(test::with_byte(io, 0, 5)).why, Refusal::bad_type);
  EXPECT_EQ(parse_sess_info(test::encoded(SessInfoRsp{})).why, Refusal::bad_type);
  EXPECT_EQ(parse_sess_info_rsp(test::encoded(SessInfo{})).why, Refusal::bad_type);
  EXPECT_EQ(message_type(io).value, MsgType::io);
  EXPECT_EQ(message_type(test::with_byte(io, 0, 5)).value, MsgType::close);
  EXPECT_EQ(message_type(test::with_byte(io, 0, 6)).why, Refusal::bad_type);
  EXPECT_EQ(message_type(test::with_byte(io, 1, 1)).why, Refusal::bad_type);
}

TEST(Rnbd, OpenRefusesWithTheRightReason) {
  const Buffer good = test::encoded(Open{AccessMode::migration, make_name("disk").value});
  EXPECT_EQ(parse_open(test::with_byte(good, 4, 3)).why, Refusal::bad_access_mode);
  EXPECT_EQ(parse_open(test::with_byte(good, 6, 0)).why, Refusal::bad_name) << "empty";
  Buffer bytes = good;
  for (std::size_t i = 6; i < 261; ++i) bytes[i] = std::byte{'x'};
  EXPECT_EQ(parse_open(bytes).why, Refusal::bad_name) << "no NUL in 255 bytes";
  bytes[260] = std::byte{0};
  EXPECT_EQ(parse_open(bytes).value.device_name.view().size(), 254U);
  Buffer out(kOpenBytes);
  EXPECT_EQ(encode(Open{}, out), 0U);
}

TEST(Rnbd, OpenRspKeepsTheIdOfAnUnusableDevice) {
  OpenRsp message;
  message.device_id = 42;
  message.nsectors = 1;
  for (const unsigned size : {0U, 1U, 256U, 511U, 513U, 4097U, 65535U}) {
    message.logical_block_size = static_cast<std::uint16_t>(size);
    const auto parsed = parse_open_rsp(test::encoded(message));
    EXPECT_EQ(parsed.why, Refusal::bad_block_size) << size;
    EXPECT_EQ(parsed.value.device_id, 42U);
  }
  message.logical_block_size = 4096;
  EXPECT_EQ(parse_open_rsp(test::encoded(message)).why, Refusal::none);
  message.nsectors = kMaxSectors;
  EXPECT_EQ(parse_open_rsp(test::encoded(message)).why, Refusal::bad_count);
  EXPECT_EQ(parse_open_rsp(test::encoded(message)).value.device_id, 42U);
}

TEST(Rnbd, UnknownOpcodesAreRefused) {
  const Buffer good = test::encoded(Io{});
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const Refusal want = opcode <= 5 ? Refusal::none : Refusal::bad_opcode;
    EXPECT_EQ(parse_io(test::with_byte(good, 16, opcode)).why, want) << opcode;
  }
}

TEST(Rnbd, IoBeyondAnyDeviceIsRefused) {
  Io io;
  io.sector = kMaxSectors - 1;
  io.size = 512;
  EXPECT_EQ(parse_io(test::encoded(io)).why, Refusal::none);
  io.size = 513;
  EXPECT_EQ(parse_io(test::encoded(io)).why, Refusal::bad_offset);
  io.sector = UINT64_MAX;
  EXPECT_EQ(parse_io(test::encoded(io)).why, Refusal::bad_offset);
  io.opcode = Opcode::flush;
  EXPECT_EQ(parse_io(test::encoded(io)).why, Refusal::none) << "a kernel flush has sector -1";
}

TEST(Rnbd, PriorityNeedsTheWholeMessage) {
  Io io;
  io.prio = 0x4005;
  const Buffer bytes = test::encoded(io);
  EXPECT_EQ(parse_io(bytes).value.prio, 0x4005);
  EXPECT_EQ(parse_io(Bytes{bytes}.first(31)).value.prio, 0);
}

// The flags of protocol section 9.2.
TEST(Rnbd, KernelFlags) {
  const auto rw = [](Opcode opcode, bool sync, bool fua) {
    Io io;
    io.opcode = opcode;
    io.sync = sync;
    io.fua = fua;
    return load_le32(test::encoded(with_kernel_flags(io)), 16);
  };
  EXPECT_EQ(rw(Opcode::read, false, false), 0x100U);
  EXPECT_EQ(rw(Opcode::read, false, true), 0x100U);
  EXPECT_EQ(rw(Opcode::write, false, false), 0x001U);
  EXPECT_EQ(rw(Opcode::write, true, false), 0x101U);
  EXPECT_EQ(rw(Opcode::write, false, true), 0x301U);
  EXPECT_EQ(rw(Opcode::flush, false, false), 0x302U);
  EXPECT_EQ(rw(Opcode::discard, false, false), 0x003U);
  EXPECT_EQ(rw(Opcode::discard, true, true), 0x103U);
  EXPECT_EQ(rw(Opcode::write_zeroes, true, false), 0x105U);
}

TEST(Rnbd, OwnFramingIsAccepted) {
  for (int opcode = 0; opcode < 6; ++opcode) {
    Io io;
    io.opcode = static_cast<Opcode>(opcode);
    io.size = 4096;
    const Framing framing = io_framing(io);
    EXPECT_EQ(check_io_framing(io, framing.direction, framing.data_len), Refusal::none) << opcode;
  }
}

TEST(Rnbd, WrongFramingIsRefused) {
  const auto judge = [](Opcode opcode, Direction direction, std::uint32_t data_len) {
    Io io;
    io.opcode = opcode;
    io.size = 4096;
    return check_io_framing(io, direction, data_len);
  };
  EXPECT_EQ(judge(Opcode::write, Direction::read, 4096), Refusal::bad_direction);
  EXPECT_EQ(judge(Opcode::read, Direction::write, 4096), Refusal::bad_direction);
  EXPECT_EQ(judge(Opcode::read, Direction::read, 4095), Refusal::bad_length);
  EXPECT_EQ(judge(Opcode::read, Direction::read, 0), Refusal::bad_length);
  EXPECT_EQ(judge(Opcode::write, Direction::write, 0), Refusal::bad_length);
  EXPECT_EQ(judge(Opcode::flush, Direction::read, 512), Refusal::bad_length);
  EXPECT_EQ(judge(Opcode::flush, Direction::write, 0), Refusal::none);
  for (const Opcode opcode : {Opcode::discard, Opcode::secure_erase, Opcode::write_zeroes}) {
    EXPECT_EQ(judge(opcode, Direction::read, 0), Refusal::bad_direction);
    EXPECT_EQ(judge(opcode, Direction::write, 0), Refusal::none);
    // Up to Linux 5.17, opcode 5 was WRITE_SAME, which carries the block to write: data with opcode 5 must be
    // rejected.
    EXPECT_EQ(judge(opcode, Direction::write, 4096),
              opcode == Opcode::write_zeroes ? Refusal::bad_length : Refusal::none);
    EXPECT_EQ(judge(opcode, Direction::write, 512), Refusal::bad_length);
  }
}

TEST(Rnbd, NewerFlagsAreKnownAndUnknownOnesKept) {
  Io sent;
  sent.opcode = Opcode::write_zeroes;
  sent.size = 4096;
  sent.nounmap = sent.preflush = true;
  std::array<std::byte, kIoBytes> bytes{};
  ASSERT_EQ(encode(sent, bytes), kIoBytes);
  EXPECT_EQ(load_le32(bytes, 16), 0xc05U);
  EXPECT_EQ(parse_io(bytes).value, sent);
  store_le32(bytes, 16, 0x80001005U);
  const auto received = parse_io(bytes);
  ASSERT_TRUE(received);
  EXPECT_EQ(received.value.unknown_flags, 0x80001000U);
  EXPECT_FALSE(received.value.nounmap || received.value.preflush);
}

TEST(Rnbd, OpenRspReportsSupportedFlags) {
  OpenRsp sent;
  sent.logical_block_size = 512;
  sent.features = kFeatureNounmap;
  std::array<std::byte, kOpenRspBytes> bytes{};
  ASSERT_EQ(encode(sent, bytes), kOpenRspBytes);
  EXPECT_EQ(load_u8(bytes, 46), 2);
  EXPECT_EQ(parse_open_rsp(bytes).value, sent);
}

TEST(Rnbd, LowerVersionIsNegotiated) {
  EXPECT_EQ(negotiated_version(0), 0);
  EXPECT_EQ(negotiated_version(1), 1);
  EXPECT_EQ(negotiated_version(2), 2);
  EXPECT_EQ(negotiated_version(255), 2);
}

TEST(Rnbd, EnumeratorsHaveTheirText) {
  EXPECT_STREQ(to_string(Opcode::write_zeroes), "write_zeroes");
  EXPECT_STREQ(to_string(static_cast<Opcode>(77)), "unknown");
  EXPECT_STREQ(to_string(AccessMode::read_only), "ro");
  EXPECT_STREQ(to_string(static_cast<AccessMode>(77)), "unknown");
}

TEST(Rnbd, EncodeRefusesSmallBuffers) {
  test::check_small_buffers(SessInfo{});
  test::check_small_buffers(SessInfoRsp{});
  test::check_small_buffers(Open{{}, make_name("d").value});
  test::check_small_buffers(OpenRsp{});
  test::check_small_buffers(Close{});
  test::check_small_buffers(Io{});
}

}  // namespace
}  // namespace rtrs::wire::rnbd::rnbd_messages_test
