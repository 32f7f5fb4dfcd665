#include "core/wire/imm.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>

namespace rtrs::wire::imm_test {
namespace {

std::uint32_t any_depth() {
  return *rc::gen::inRange<std::uint32_t>(1, kMaxQueueDepth + 1);
}

TEST(Imm, TypesAreInTheUpperFourBits) {
  EXPECT_EQ(imm_type(0x0fffffff), ImmType::io_req);
  EXPECT_EQ(imm_type(0x10000000), ImmType::io_rsp);
  EXPECT_EQ(imm_type(0x2fffffff), ImmType::io_rsp_w_inv);
  EXPECT_EQ(imm_type(0x80000000), ImmType::hb_msg);
  EXPECT_EQ(imm_type(0x9fffffff), ImmType::hb_ack);
}

TEST(Imm, OnlyFiveTypesAreKnown) {
  std::set<unsigned> known;
  for (unsigned type = 0; type < 16; ++type) {
    if (known_imm_type(type << kImmPayloadBits)) known.insert(type);
  }
  EXPECT_EQ(known, (std::set<unsigned>{0, 1, 2, 8, 9}));
}

RC_GTEST_PROP(Imm, RequestRoundTrip, ()) {
  const auto depth = any_depth();
  const auto buf_id = *rc::gen::inRange<std::uint32_t>(0, depth);
  const auto off = *rc::gen::inRange<std::uint32_t>(0, std::uint32_t{1} << mem_bits(depth));
  const std::uint32_t imm = encode_io_req(depth, buf_id, off);
  RC_ASSERT(imm_type(imm) == ImmType::io_req);
  RC_ASSERT(decode_io_req(depth, imm) == (IoReqImm{buf_id, off}));
}

RC_GTEST_PROP(Imm, CheckedRequestIsInBounds, (std::uint32_t imm)) {
  const auto depth = any_depth();
  const auto chunk = *rc::gen::inRange<std::uint32_t>(1, (std::uint32_t{1} << mem_bits(depth)) + 1);
  const auto checked = check_io_req(depth, chunk, imm);
  if (!checked) return;
  RC_ASSERT(checked.value.buf_id < depth);
  RC_ASSERT(checked.value.off < chunk);
  RC_ASSERT(encode_io_req(depth, checked.value.buf_id, checked.value.off) == imm);
}

TEST(Imm, CheckRefusesWithTheRightReason) {
  EXPECT_EQ(check_io_req(512, 131072, encode_hb(ImmType::hb_msg)).why, Refusal::bad_immediate);
  EXPECT_EQ(check_io_req(0, 131072, 0).why, Refusal::bad_depth);
  EXPECT_EQ(check_io_req(65536, 4096, 0).why, Refusal::bad_depth);
  EXPECT_EQ(check_io_req(500, 131072, encode_io_req(500, 500, 0)).why, Refusal::bad_buffer_id);
  EXPECT_EQ(check_io_req(500, 131072, encode_io_req(500, 499, 131072)).why, Refusal::bad_offset);
  EXPECT_EQ(check_io_req(500, 131072, encode_io_req(500, 499, 131071)).why, Refusal::none);
}

TEST(Imm, EveryErrnoUpTo511Survives) {
  for (int error = 0; error <= 511; ++error) {
    for (const auto type : {ImmType::io_rsp, ImmType::io_rsp_w_inv}) {
      const auto back = decode_io_rsp(encode_io_rsp(type, kMsgIdMask, error));
      EXPECT_EQ(back, (IoRspImm{kMsgIdMask, error, type == ImmType::io_rsp_w_inv}));
    }
  }
}

TEST(Imm, ErrnoThatDoesNotFitIsEio) {
  for (const int error : {512, 513, 524, 529, 1024, 4095, 1 << 20, -1, -22, -512}) {
    EXPECT_EQ(decode_io_rsp(encode_io_rsp(ImmType::io_rsp, 1, error)).error, 5) << error;
  }
}

RC_GTEST_PROP(Imm, FailureNeverBecomesSuccess, (int error, std::uint32_t msg_id)) {
  const std::uint32_t imm = encode_io_rsp(ImmType::io_rsp, msg_id, error);
  RC_ASSERT(imm_type(imm) == ImmType::io_rsp);
  RC_ASSERT((decode_io_rsp(imm).error == 0) == (error == 0));
  RC_ASSERT(decode_io_rsp(imm).msg_id == (msg_id & kMsgIdMask));
}

RC_GTEST_PROP(Imm, TaggedIdRoundTrip, (std::uint8_t generation)) {
  const auto depth = any_depth();
  const auto buf_id = *rc::gen::inRange<std::uint32_t>(0, depth);
  const std::uint32_t id = tagged_msg_id(depth, buf_id, generation);
  RC_ASSERT(id <= kMsgIdMask);
  const auto mask = generation_mask(depth);
  RC_ASSERT(split_msg_id(depth, id) ==
            (TaggedMsgId{buf_id, static_cast<std::uint8_t>(generation & mask), true}));
}

TEST(Imm, GenerationBitsDependOnTheDepth) {
  EXPECT_EQ(generation_mask(1), 0xff);
  EXPECT_EQ(generation_mask(2048), 0xff);
  EXPECT_EQ(generation_mask(2049), 0x7f);
  EXPECT_EQ(generation_mask(65535), 0x7);
  EXPECT_FALSE(split_msg_id(512, kMsgIdMask).exact);
}

RC_GTEST_PROP(Imm, WireRoundTrip, (std::uint32_t imm)) {
  const auto wire = imm_to_wire(imm);
  RC_ASSERT(std::to_integer<std::uint32_t>(wire[0]) == imm >> 24);
  RC_ASSERT(imm_from_wire(wire) == imm);
}

TEST(Imm, CeilLog2) {
  EXPECT_EQ(ceil_log2(0), 0U);
  EXPECT_EQ(ceil_log2(1), 0U);
  EXPECT_EQ(ceil_log2(3), 2U);
  EXPECT_EQ(ceil_log2(std::uint64_t{1} << 32), 32U);
  EXPECT_EQ(ceil_log2((std::uint64_t{1} << 32) + 1), 33U);
}

TEST(Refusals, EachHasItsOwnWord) {
  std::set<std::string> words;
  for (unsigned i = 0; i < kRefusalCount; ++i) words.insert(to_string(static_cast<Refusal>(i)));
  EXPECT_EQ(words.size(), kRefusalCount);
  EXPECT_STREQ(to_string(Refusal::none), "none");
  EXPECT_STREQ(to_string(Refusal::bad_block_size), "bad_block_size");
  EXPECT_STREQ(to_string(static_cast<Refusal>(255)), "unknown");
}

}  // namespace
}  // namespace rtrs::wire::imm_test
