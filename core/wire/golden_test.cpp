// Tests the byte vectors of protocol Appendix A and the requests of protocol section 9.1: messages of a
// kernel peer are encoded, parsed and compared byte for byte.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::wire::golden_test {
namespace {

using Buffer = std::vector<std::byte>;

// Converts hex digits to bytes (blanks are ignored) and appends zeros up to `total` bytes.
Buffer from_hex(const std::string& hex, std::size_t total = 0) {
  Buffer bytes;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
      continue;
    }
    bytes.push_back(static_cast<std::byte>(high * 16 + digit));
    high = -1;
  }
  if (total > bytes.size()) bytes.resize(total, std::byte{0});
  return bytes;
}

// Encodes into a buffer of garbage, so that an unwritten reserved byte is detected.
template <class Message>
Buffer encoded(const Message& message, std::size_t bytes) {
  Buffer out(bytes + 8, std::byte{0xee});
  EXPECT_EQ(encode(message, out), bytes);
  for (std::size_t i = bytes; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0xee}) << "wrote past the end";
  out.resize(bytes);
  return out;
}

Uuid counting_uuid(std::uint8_t first) {
  Uuid uuid;
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) uuid.bytes[i] = static_cast<std::uint8_t>(first + i);
  return uuid;
}

Name name(std::string_view text) {
  return make_name(text).value;
}

// Protocol Appendix A, "conn_req".
TEST(Golden, ConnReq) {
  const Buffer wire = from_hex(
      "0000 bd1b 0002 0000 0300 0100 101112131415161718191a1b1c1d1e1f 202122232425262728292a2b2c2d2e2f 01",
      kConnReqBytes);
  ConnReq message;
  message.cid_num = 3;
  message.recon_cnt = 1;
  message.sess_uuid = counting_uuid(0x10);
  message.paths_uuid = counting_uuid(0x20);
  message.first_conn = true;
  EXPECT_EQ(encoded(message, kConnReqBytes), wire);
  const auto parsed = parse_conn_req(wire);
  ASSERT_TRUE(parsed) << to_string(parsed.why);
  EXPECT_EQ(parsed.value, message);
}

// The byte for urtrs extensions is the first reserved byte after first_conn (offset 45).
TEST(Golden, ConnReqExtensions) {
  ConnReq message;
  message.cid_num = 1;
  message.sess_uuid = counting_uuid(0x10);
  message.paths_uuid = counting_uuid(0x20);
  message.extensions = Extensions::fence | Extensions::generation;
  const Buffer wire = encoded(message, kConnReqBytes);
  EXPECT_EQ(wire[44], std::byte{0});
  EXPECT_EQ(wire[45], std::byte{3});
  EXPECT_EQ(parse_conn_req(wire).value, message);
}

// Protocol Appendix A, "conn_rsp qd 512, CS 131072, AI=Y".
TEST(Golden, ConnRspAccept) {
  const Buffer wire = from_hex("bd1b 0002 0000 0002 00f00100 00100000 02000000", kConnRspBytes);
  ConnRsp message;
  message.queue_depth = 512;
  message.max_io_size = 131072 - 4096;
  message.max_hdr_size = 4096;
  message.flags = kConnRspNewRkey;
  EXPECT_EQ(encoded(message, kConnRspBytes), wire);
  const auto parsed = parse_conn_rsp(wire);
  ASSERT_TRUE(parsed) << to_string(parsed.why);
  EXPECT_EQ(parsed.value, message);
  EXPECT_EQ(parsed.value.chunk_size(), 131072U);
}

// Protocol Appendix A, "reject -ECONNRESET".
TEST(Golden, ConnRspReject) {
  const Buffer wire = from_hex("bd1b 0002 98ff 0000", kConnRspBytes);
  EXPECT_EQ(encoded(make_reject(linux_errno::kEconnreset), kConnRspBytes), wire);
  EXPECT_EQ(parse_conn_rsp(wire).value.error, -104);
  EXPECT_EQ(reject_errno(wire), 104);
}

// Protocol Appendix A, "info_req".
TEST(Golden, InfoReq) {
  const Buffer wire = from_hex("0000 7365737331", kInfoReqBytes);
  EXPECT_EQ(encoded(InfoReq{name("sess1")}, kInfoReqBytes), wire);
  const auto parsed = parse_info_req(wire);
  ASSERT_TRUE(parsed) << to_string(parsed.why);
  EXPECT_EQ(parsed.value.name.view(), "sess1");
}

// Protocol Appendix A, "info_rsp 1 run".
TEST(Golden, InfoRsp) {
  const Buffer wire = from_hex("0100 0100 00000000 00003412007f0000 00120100 00000004");
  const std::array<Descriptor, 1> runs{Descriptor{0x7f0012340000, 0x11200, 0x4000000}};
  Buffer out(wire.size(), std::byte{0xee});
  EXPECT_EQ(encode_info_rsp(runs, out), wire.size());
  EXPECT_EQ(out, wire);
  const auto parsed = parse_info_rsp(wire, 512, 131072);
  ASSERT_TRUE(parsed) << to_string(parsed.why);
  EXPECT_EQ(parsed.value.sg_cnt, 1);
  EXPECT_EQ(info_rsp_chunk(wire, 3, 131072).value,
            (Descriptor{0x7f0012340000 + 3 * 131072, 0x11200, 131072}));
}

// Protocol Appendix A, "rkey_rsp".
TEST(Golden, RkeyRsp) {
  const Buffer wire = from_hex("0400 0300 01120100");
  EXPECT_EQ(encoded(RkeyRsp{3, 0x11201}, kRkeyRspBytes), wire);
  EXPECT_EQ(parse_rkey_rsp(wire, 512).value, (RkeyRsp{3, 0x11201}));
}

// Protocol Appendix A, "rdma_write usr_len 32".
TEST(Golden, WriteHeader) {
  const Buffer wire = from_hex("0200 2000");
  IoRequest header;
  header.usr_len = 32;
  EXPECT_EQ(encoded(header, kWriteHeaderBytes), wire);
  // urtrs extension: the generation is the high byte of the type.
  header.generation = 0xab;
  EXPECT_EQ(encoded(header, kWriteHeaderBytes), from_hex("02ab 2000"));
}

// Protocol Appendix A, "rdma_read"; placed in a chunk as in protocol section 5.3.
TEST(Golden, ReadHeader) {
  const Buffer wire = from_hex("0300 2000 0100 0100 0070665544332211 03c3b2a1 00100000");
  IoRequest header;
  header.direction = Direction::read;
  header.usr_len = 32;
  header.need_inval = true;
  header.has_descriptor = true;
  header.desc = Descriptor{0x1122334455667000, 0xa1b2c303, 4096};
  EXPECT_EQ(encoded(header, kMaxIoHeaderBytes), wire);

  Buffer chunk(131072);
  std::copy(wire.begin(), wire.end(), chunk.begin() + 4128);
  const auto parsed = parse_io_request(chunk, 3, 4128, false);
  ASSERT_TRUE(parsed) << to_string(parsed.why);
  IoRequest expected;
  expected.direction = Direction::read;
  expected.buf_id = 3;
  expected.off = 4128;
  expected.data_len = 4096;
  expected.usr_len = 32;
  expected.need_inval = true;
  expected.has_descriptor = true;
  expected.desc = header.desc;
  EXPECT_EQ(parsed.value, expected);
}

// The two fence messages are a urtrs extension, so no kernel vector exists.
TEST(Golden, Fence) {
  EXPECT_EQ(encoded(FenceReq{7, 0x01020304, counting_uuid(0x10)}, kFenceBytes),
            from_hex("0140 0700 04030201 101112131415161718191a1b1c1d1e1f"));
  EXPECT_EQ(encoded(FenceRsp{110, 0x01020304, counting_uuid(0x10)}, kFenceBytes),
            from_hex("0240 6e00 04030201 101112131415161718191a1b1c1d1e1f"));
}

// Protocol Appendix A, "RNBD IO write" and "FLUSH".
TEST(Golden, RnbdIo) {
  using rnbd::Io;
  using rnbd::Opcode;
  Io write;
  write.device_id = 7;
  write.sector = 0x1000;
  write.opcode = Opcode::write;
  write.sync = true;
  write.size = 4096;
  const Buffer wire = from_hex("04000000 07000000 0010000000000000 01010000 00100000 0000", rnbd::kIoBytes);
  EXPECT_EQ(encoded(write, rnbd::kIoBytes), wire);
  EXPECT_EQ(rnbd::parse_io(wire).value, write);

  Io flush;
  flush.opcode = Opcode::flush;
  const Buffer flushed = encoded(rnbd::with_kernel_flags(flush), rnbd::kIoBytes);
  EXPECT_EQ(Buffer(flushed.begin() + 16, flushed.begin() + 20), from_hex("02030000"));
}

// Protocol Appendix A, "OPEN rw", "CLOSE", "SESS_INFO".
TEST(Golden, RnbdOpenCloseSessInfo) {
  const rnbd::Open open{rnbd::AccessMode::read_write, name("ram0")};
  const Buffer wire = from_hex("02000000 01 00 72616d30 00", rnbd::kOpenBytes);
  EXPECT_EQ(encoded(open, rnbd::kOpenBytes), wire);
  EXPECT_EQ(rnbd::parse_open(wire).value, open);
  EXPECT_EQ(encoded(rnbd::Close{7}, rnbd::kCloseBytes), from_hex("05000000 07000000"));
  EXPECT_EQ(encoded(rnbd::SessInfo{}, rnbd::kSessInfoBytes), from_hex("00000000 02", rnbd::kSessInfoBytes));
  EXPECT_EQ(encoded(rnbd::SessInfoRsp{}, rnbd::kSessInfoRspBytes),
            from_hex("01000000 02", rnbd::kSessInfoRspBytes));
}

// Offsets of protocol section 2.9; each field has a different value.
TEST(Golden, RnbdOpenRsp) {
  rnbd::OpenRsp message;
  message.device_id = 0x04030201;
  message.nsectors = 0x2118171615141312 & (rnbd::kMaxSectors - 1);
  message.max_hw_sectors = 0x24232221;
  message.max_write_zeroes_sectors = 0x34333231;
  message.max_discard_sectors = 0x44434241;
  message.discard_granularity = 0x54535251;
  message.discard_alignment = 0x64636261;
  message.physical_block_size = 4096;
  message.logical_block_size = 512;
  message.max_segments = 128;
  message.secure_discard = 0x7271;
  message.cache_policy = rnbd::kCacheFua | rnbd::kCacheWriteback;
  const Buffer wire = from_hex(
      "03000000 01020304 1213141516171800 21222324 31323334 41424344 51525354 61626364 0010 0002 8000 7172 "
      "00 03",
      rnbd::kOpenRspBytes);
  EXPECT_EQ(encoded(message, rnbd::kOpenRspBytes), wire);
  const auto parsed = rnbd::parse_open_rsp(wire);
  ASSERT_TRUE(parsed) << to_string(parsed.why);
  EXPECT_EQ(parsed.value, message);
}

// Protocol Appendix A, "IMM".
TEST(Golden, Immediates) {
  EXPECT_EQ(encode_io_req(512, 3, 4128), 0x00181020U);
  EXPECT_EQ(encode_io_req(512, 511, 4128), 0x0ff81020U);
  EXPECT_EQ(encode_io_rsp(ImmType::io_rsp, 3, 0), 0x10000003U);
  EXPECT_EQ(encode_io_rsp(ImmType::io_rsp, 3, 5), 0x10280003U);
  EXPECT_EQ(encode_io_rsp(ImmType::io_rsp, 511, 22), 0x10b001ffU);
  EXPECT_EQ(encode_io_rsp(ImmType::io_rsp_w_inv, 3, 0), 0x20000003U);
  EXPECT_EQ(encode_io_rsp(ImmType::io_rsp_w_inv, 3, 107), 0x23580003U);
  EXPECT_EQ(encode_hb(ImmType::hb_msg), 0x80000000U);
  EXPECT_EQ(encode_hb(ImmType::hb_ack), 0x90000000U);
  const auto wire = imm_to_wire(0x00181020U);
  EXPECT_EQ(Buffer(wire.begin(), wire.end()), from_hex("00181020"));
}

// Protocol Appendix A, "chunk_bits/mem_bits".
TEST(Golden, ImmediateBits) {
  struct Row {
    std::uint32_t queue_depth;
    unsigned chunk;
    unsigned mem;
  };
  for (const Row& row : {Row{1, 0, 28}, Row{2, 1, 27}, Row{64, 6, 22}, Row{128, 7, 21}, Row{500, 9, 19},
                         Row{512, 9, 19}, Row{513, 10, 18}}) {
    EXPECT_EQ(chunk_bits(row.queue_depth), row.chunk) << row.queue_depth;
    EXPECT_EQ(mem_bits(row.queue_depth), row.mem) << row.queue_depth;
  }
}

// Protocol section 9.1, columns direction, data_len, usr_len, sg_cnt, con, off.
TEST(Golden, RnbdFraming) {
  using rnbd::Framing;
  EXPECT_EQ(rnbd::kSessInfoFraming, (Framing{Direction::read, 36, 36, true, true}));
  EXPECT_EQ(rnbd::kOpenFraming, (Framing{Direction::read, 56, 264, true, true}));
  EXPECT_EQ(rnbd::kCloseFraming, (Framing{Direction::write, 0, 8, false, true}));
  rnbd::Io io;
  io.size = 4096;
  EXPECT_EQ(rnbd::io_framing(io), (Framing{Direction::read, 4096, 32, true, false}));
  EXPECT_EQ(rnbd::io_framing(io).off(), 4128U);
  io.opcode = rnbd::Opcode::write;
  EXPECT_EQ(rnbd::io_framing(io), (Framing{Direction::write, 4096, 32, false, false}));
  io.opcode = rnbd::Opcode::flush;
  EXPECT_EQ(rnbd::io_framing(io), (Framing{Direction::read, 0, 32, false, false}));
  for (const auto opcode : {rnbd::Opcode::discard, rnbd::Opcode::write_zeroes}) {
    io.opcode = opcode;
    EXPECT_EQ(rnbd::io_framing(io), (Framing{Direction::write, 0, 32, false, false}));
  }
}

// The RTRS header directly follows the user header. The written lengths are those of protocol section 9.1.
TEST(Golden, RnbdWrittenLengths) {
  IoRequest read;
  read.direction = Direction::read;
  IoRequest with_descriptor = read;
  with_descriptor.has_descriptor = true;
  EXPECT_EQ(rnbd::kSessInfoBytes + encoded_bytes(with_descriptor), 60U);
  EXPECT_EQ(rnbd::kOpenBytes + encoded_bytes(with_descriptor), 288U);
  EXPECT_EQ(rnbd::kCloseBytes + kWriteHeaderBytes, 12U);
  EXPECT_EQ(rnbd::kIoBytes + encoded_bytes(with_descriptor), 56U);
  EXPECT_EQ(rnbd::kIoBytes + encoded_bytes(read), 40U);
  EXPECT_EQ(rnbd::kIoBytes + kWriteHeaderBytes, 36U);
}

}  // namespace
}  // namespace rtrs::wire::golden_test
