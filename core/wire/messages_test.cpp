#include "core/wire/messages.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/wire/linux_errno.hpp"
#include "core/wire/test_bytes.hpp"

namespace rtrs::wire::messages_test {
namespace {

using test::Buffer;

Uuid any_uuid() {
  Uuid uuid;
  for (auto& byte : uuid.bytes) byte = *rc::gen::arbitrary<std::uint8_t>();
  return uuid;
}

ConnReq any_conn_req() {
  ConnReq message;
  message.cid_num = *rc::gen::inRange<std::uint16_t>(1, kMaxCidNum + 1);
  message.cid = *rc::gen::inRange<std::uint16_t>(0, message.cid_num);
  message.recon_cnt = *rc::gen::arbitrary<std::uint16_t>();
  message.sess_uuid = any_uuid();
  message.paths_uuid = any_uuid();
  message.sess_uuid.bytes[0] |= 1;
  message.paths_uuid.bytes[15] |= 1;
  message.first_conn = *rc::gen::arbitrary<bool>();
  message.extensions = static_cast<Extensions>(*rc::gen::arbitrary<std::uint8_t>());
  return message;
}

ConnRsp any_accept() {
  ConnRsp message;
  message.queue_depth = *rc::gen::inRange<std::uint16_t>(1, 4096);
  message.max_hdr_size = *rc::gen::inRange<std::uint32_t>(24, 8193);
  message.max_io_size = *rc::gen::inRange<std::uint32_t>(1, 57000);
  message.flags = *rc::gen::arbitrary<std::uint32_t>();
  return message;
}

const ConnRsp kAccept{0, 512, 126976, 4096, kConnRspNewRkey};

template <class Change>
Refusal conn_rsp_with(Change change, std::uint16_t cid = 0) {
  ConnRsp message = kAccept;
  change(message);
  return parse_conn_rsp(test::encoded(message), cid).why;
}

RC_GTEST_PROP(ConnReq, RoundTrip, ()) {
  const ConnReq message = any_conn_req();
  const auto parsed = parse_conn_req(test::encoded(message));
  RC_ASSERT(parsed.why == Refusal::none);
  RC_ASSERT(parsed.value == message);
}

RC_GTEST_PROP(ConnReq, MutationsAreRefusedOrStable, ()) {
  test::check_stable(test::damaged(test::encoded(any_conn_req())), [](Bytes b) { return parse_conn_req(b); });
}

TEST(ConnReq, RefusesWithTheRightReason) {
  ConnReq message;
  message.cid_num = 3;
  message.sess_uuid.bytes[3] = 1;
  message.paths_uuid.bytes[7] = 1;
  const Buffer good = test::encoded(message);
  const auto parse_with = [&good](std::size_t at, unsigned value) {
    return parse_conn_req(test::with_byte(good, at, value)).why;
  };
  EXPECT_EQ(parse_conn_req(Bytes{good}.first(55)).why, Refusal::too_short);
  EXPECT_EQ(parse_conn_req({}).why, Refusal::too_short);
  EXPECT_EQ(parse_with(2, 0xbe), Refusal::bad_magic);
  EXPECT_EQ(parse_with(5, 3), Refusal::bad_version);
  EXPECT_EQ(parse_with(4, 7), Refusal::none) << "minor versions are compatible";
  EXPECT_EQ(parse_with(6, 3), Refusal::bad_cid);
  EXPECT_EQ(parse_with(8, 0), Refusal::bad_cid_num);
  EXPECT_EQ(parse_with(9, 0x20), Refusal::bad_cid_num);
  message.cid_num = 4096;
  message.cid = 4095;
  EXPECT_EQ(parse_conn_req(test::encoded(message)).why, Refusal::none);
  message.cid_num = 4097;
  EXPECT_EQ(parse_conn_req(test::encoded(message)).why, Refusal::bad_cid_num);
}

TEST(ConnReq, RefusesAnIdentityOfAllZeroes) {
  ConnReq message;
  message.cid_num = 3;
  message.paths_uuid.bytes[15] = 1;
  EXPECT_EQ(parse_conn_req(test::encoded(message)).why, Refusal::bad_uuid);
  message.sess_uuid.bytes[15] = 1;
  EXPECT_EQ(parse_conn_req(test::encoded(message)).why, Refusal::none);
  message.paths_uuid = Uuid{};
  EXPECT_EQ(parse_conn_req(test::encoded(message)).why, Refusal::bad_uuid);
}

TEST(ConnReq, PaddingAndReservedBytesAreIgnored) {
  ConnReq message;
  message.cid_num = 1;
  message.sess_uuid.bytes[0] = message.paths_uuid.bytes[0] = 1;
  Buffer bytes = test::encoded(message);
  bytes[44] = std::byte{0xfe};
  for (std::size_t i = 46; i < bytes.size(); ++i) bytes[i] = std::byte{0xaa};
  bytes.resize(92, std::byte{0x55});
  EXPECT_EQ(parse_conn_req(bytes).value, message);
}

RC_GTEST_PROP(ConnRsp, RoundTrip, ()) {
  const ConnRsp message = any_accept();
  const auto parsed = parse_conn_rsp(test::encoded(message));
  RC_ASSERT(parsed.why == Refusal::none);
  RC_ASSERT(parsed.value == message);
}

RC_GTEST_PROP(ConnRsp, MutationsAreRefusedOrStable, ()) {
  const auto cid = *rc::gen::inRange<std::uint16_t>(0, 3);
  test::check_stable(test::damaged(test::encoded(any_accept())),
                     [cid](Bytes b) { return parse_conn_rsp(b, cid); });
}

TEST(ConnRsp, RefusesWithTheRightReason) {
  const Buffer good = test::encoded(kAccept);
  EXPECT_EQ(parse_conn_rsp(Bytes{good}.first(55)).why, Refusal::too_short);
  EXPECT_EQ(parse_conn_rsp(test::with_byte(good, 0, 0)).why, Refusal::bad_magic);
  EXPECT_EQ(parse_conn_rsp(test::with_byte(good, 3, 1)).why, Refusal::bad_version);
  EXPECT_EQ(conn_rsp_with([](ConnRsp& m) { m.queue_depth = 0; }), Refusal::bad_depth);
  EXPECT_EQ(conn_rsp_with([](ConnRsp& m) { m.max_io_size = m.max_hdr_size = 0; }), Refusal::bad_chunk_size);
  EXPECT_EQ(conn_rsp_with([](ConnRsp& m) { m.max_io_size = 0; }), Refusal::bad_chunk_size);
  EXPECT_EQ(conn_rsp_with([](ConnRsp& m) { m.max_hdr_size = 23; }), Refusal::bad_chunk_size);
  const auto wrapping = [](ConnRsp& m) {
    m.max_io_size = 0xffff0000U;
    m.max_hdr_size = 0x10000U + 131072U;
  };
  EXPECT_EQ(conn_rsp_with(wrapping), Refusal::bad_chunk_size) << "131072 in 32 bits";
}

TEST(ConnRsp, DepthAndChunkShareTwentyEightBits) {
  const auto fits = [](std::uint16_t depth, std::uint32_t chunk) {
    return conn_rsp_with([depth, chunk](ConnRsp& m) {
      m.queue_depth = depth;
      m.max_io_size = chunk - m.max_hdr_size;
    });
  };
  EXPECT_EQ(fits(512, 1U << 19), Refusal::none);
  EXPECT_EQ(fits(512, (1U << 19) + 1), Refusal::bad_chunk_size);
  EXPECT_EQ(fits(513, 1U << 19), Refusal::bad_chunk_size);
  EXPECT_EQ(fits(1, 1U << 28), Refusal::none);
  EXPECT_EQ(fits(32768, 8192), Refusal::none);
  EXPECT_EQ(fits(32769, 8192), Refusal::bad_chunk_size);
}

TEST(ConnRsp, GeometryIsIgnoredOnOtherConnections) {
  EXPECT_EQ(conn_rsp_with([](ConnRsp& m) { m.queue_depth = 0; }, 1), Refusal::none);
}

TEST(ConnRsp, ErrorIsReturnedNotRefused) {
  const auto parsed = parse_conn_rsp(test::encoded(make_reject(linux_errno::kEexist)));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed.value.error, -17);
}

TEST(Reject, EveryErrnoReachesTheClient) {
  for (int error = 1; error <= linux_errno::kMaxErrno; ++error) {
    ASSERT_EQ(reject_errno(test::encoded(make_reject(error))), error);
  }
}

TEST(Reject, InvalidErrnoBecomesEconnreset) {
  for (const int wire : {0, 1, 22, 32767, -4096, -32768}) {
    ConnRsp message;
    message.error = static_cast<std::int16_t>(wire);
    EXPECT_EQ(reject_errno(test::encoded(message)), 104) << wire;
  }
  const Buffer good = test::encoded(make_reject(linux_errno::kEexist));
  EXPECT_EQ(reject_errno(good), 17);
  EXPECT_EQ(reject_errno({}), 104);
  EXPECT_EQ(reject_errno(Bytes{good}.first(55)), 104);
  EXPECT_EQ(reject_errno(test::with_byte(good, 0, 0)), 104);
  EXPECT_EQ(reject_errno(test::with_byte(good, 3, 9)), 104);
  for (const int error : {0, -17, 4096, 1 << 20}) EXPECT_EQ(make_reject(error).error, -104) << error;
}

RC_GTEST_PROP(Reject, AlwaysAPositiveErrno, ()) {
  const Buffer bytes = test::damaged(test::encoded(make_reject(*rc::gen::inRange(1, 4096))));
  const int error = reject_errno(bytes);
  RC_ASSERT(error > 0 && error <= linux_errno::kMaxErrno);
}

TEST(Names, Rules) {
  EXPECT_TRUE(valid_session_name("sess1"));
  EXPECT_TRUE(valid_session_name("a b@c:d\xc3\xa9"));
  EXPECT_TRUE(valid_session_name(std::string(254, 'x')));
  EXPECT_FALSE(valid_session_name(std::string(255, 'x')));
  for (const char* bad : {"", ".", "a.b", "a/b", "a\nb", "\x7f", "\x01"})
    EXPECT_FALSE(valid_session_name(bad)) << bad;
  EXPECT_FALSE(valid_session_name(std::string_view("a\0b", 3)));
  EXPECT_EQ(make_name(std::string(254, 'x')).value.view(), std::string(254, 'x'));
  EXPECT_EQ(make_name(std::string(255, 'x')).why, Refusal::bad_name);
  EXPECT_EQ(make_name(std::string_view("a\0b", 3)).why, Refusal::bad_name);
}

TEST(InfoReq, RefusesWithTheRightReason) {
  const Buffer good = test::encoded(InfoReq{make_name("sess1").value});
  Buffer bytes = good;
  EXPECT_EQ(parse_info_req(Bytes{good}.first(271)).why, Refusal::too_short);
  bytes.resize(273);
  EXPECT_EQ(parse_info_req(bytes).why, Refusal::bad_length);
  EXPECT_EQ(parse_info_req(test::with_byte(good, 0, 1)).why, Refusal::bad_type);
  EXPECT_EQ(parse_info_req(test::with_byte(good, 2, 0)).why, Refusal::bad_name);
  for (const unsigned c : {'/' + 0U, '.' + 0U, 0x1fU, 0x7fU}) {
    EXPECT_EQ(parse_info_req(test::with_byte(good, 4, c)).why, Refusal::bad_name) << c;
  }
  bytes = good;
  for (std::size_t i = 2; i < 256; ++i) bytes[i] = std::byte{'x'};
  EXPECT_EQ(parse_info_req(bytes).why, Refusal::none);
  EXPECT_EQ(parse_info_req(bytes).value.name.view().size(), 254U);
  bytes[256] = std::byte{'x'};
  EXPECT_EQ(parse_info_req(bytes).why, Refusal::bad_name) << "no NUL in 255 bytes";
}

TEST(InfoReq, BadNamesAreNotEncoded) {
  Buffer out(kInfoReqBytes);
  for (const char* bad : {"", "a.b", "a/b"}) EXPECT_EQ(encode(InfoReq{make_name(bad).value}, out), 0U) << bad;
}

RC_GTEST_PROP(InfoReq, MutationsAreRefusedOrStable, ()) {
  const auto length = *rc::gen::inRange<std::size_t>(1, 255);
  const InfoReq message{make_name(std::string(length, 'n')).value};
  const Buffer good = test::encoded(message);
  RC_ASSERT(parse_info_req(good).value == message);
  test::check_stable(test::damaged(good), [](Bytes b) { return parse_info_req(b); });
}

RC_GTEST_PROP(Fence, RoundTripAndMutations, (std::uint16_t number, std::uint32_t serial)) {
  const FenceReq req{number, serial, any_uuid()};
  const FenceRsp rsp{static_cast<std::uint16_t>(number % 4096), serial, any_uuid()};
  RC_ASSERT(parse_fence_req(test::encoded(req)).value == req);
  RC_ASSERT(parse_fence_rsp(test::encoded(rsp)).value == rsp);
  test::check_stable(test::damaged(test::encoded(req)), [](Bytes b) { return parse_fence_req(b); });
  test::check_stable(test::damaged(test::encoded(rsp)), [](Bytes b) { return parse_fence_rsp(b); });
}

TEST(Fence, RefusesWithTheRightReason) {
  const Buffer req = test::encoded(FenceReq{});
  const Buffer rsp = test::encoded(FenceRsp{});
  EXPECT_EQ(parse_fence_req(Bytes{req}.first(23)).why, Refusal::too_short);
  EXPECT_EQ(parse_fence_rsp(Bytes{rsp}.first(23)).why, Refusal::too_short);
  EXPECT_EQ(parse_fence_req(rsp).why, Refusal::bad_type);
  EXPECT_EQ(parse_fence_rsp(req).why, Refusal::bad_type);
  EXPECT_EQ(parse_fence_rsp(test::with_byte(rsp, 3, 0x10)).why, Refusal::bad_errno);
  Buffer out(kFenceBytes);
  EXPECT_EQ(encode(FenceRsp{4096, 0, {}}, out), 0U);
}

TEST(SendType, DistinguishesTheMessages) {
  EXPECT_EQ(send_type(test::encoded(FenceReq{})).value, MsgType::fence_req);
  EXPECT_EQ(send_type(test::encoded(RkeyRsp{})).value, MsgType::rkey_rsp);
  EXPECT_EQ(send_type(test::encoded(InfoReq{make_name("s").value})).value, MsgType::info_req);
  EXPECT_EQ(send_type({}).why, Refusal::too_short);
  EXPECT_EQ(send_type(test::Buffer(1)).why, Refusal::too_short);
}

TEST(RkeyRsp, RefusesWithTheRightReason) {
  const Buffer good = test::encoded(RkeyRsp{511, 7});
  EXPECT_EQ(parse_rkey_rsp(good, 512).why, Refusal::none);
  EXPECT_EQ(parse_rkey_rsp(good, 511).why, Refusal::bad_buffer_id);
  EXPECT_EQ(parse_rkey_rsp(Bytes{good}.first(7), 512).why, Refusal::too_short);
  EXPECT_EQ(parse_rkey_rsp(test::with_byte(good, 0, 3), 512).why, Refusal::bad_type);
}

RC_GTEST_PROP(RkeyRsp, RoundTripAndMutations, (std::uint16_t buf_id, std::uint32_t rkey)) {
  const RkeyRsp message{buf_id, rkey};
  RC_ASSERT(parse_rkey_rsp(test::encoded(message), 65536).value == message);
  test::check_stable(test::damaged(test::encoded(message)), [](Bytes b) { return parse_rkey_rsp(b, 512); });
}

// Encodes every message into every smaller buffer: writes nothing and returns 0.
TEST(Encode, RefusesSmallBuffers) {
  test::check_small_buffers(ConnReq{});
  test::check_small_buffers(ConnRsp{});
  test::check_small_buffers(InfoReq{make_name("s").value});
  test::check_small_buffers(RkeyRsp{});
  test::check_small_buffers(FenceReq{});
  test::check_small_buffers(FenceRsp{});
  test::check_small_buffers(IoRequest{});
  test::check_small_buffers(IoRequest{.direction = Direction::read});
  test::check_small_buffers(IoRequest{.direction = Direction::read, .has_descriptor = true});
}

}  // namespace
}  // namespace rtrs::wire::messages_test
