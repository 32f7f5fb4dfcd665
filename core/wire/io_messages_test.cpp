#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "core/wire/messages.hpp"
#include "core/wire/test_bytes.hpp"

namespace rtrs::wire::io_messages_test {
namespace {

using test::Buffer;

Buffer info_rsp(const std::vector<Descriptor>& runs) {
  Buffer out(info_rsp_bytes(runs.size()), std::byte{0xee});
  EXPECT_EQ(encode_info_rsp(runs, out), out.size());
  return out;
}

Refusal judged(const std::vector<Descriptor>& runs, std::uint32_t depth, std::uint32_t chunk) {
  const test::Exact bytes{info_rsp(runs)};
  return parse_info_rsp(bytes.view(), depth, chunk).why;
}

// Random division of `depth` chunks into runs. The number of runs divides the depth.
struct Layout {
  std::uint32_t chunk = 0;
  std::uint32_t depth = 0;
  std::vector<Descriptor> runs;
  std::vector<Descriptor> chunks;
};

Layout any_layout() {
  Layout layout;
  layout.chunk = *rc::gen::inRange<std::uint32_t>(1, 131073);
  const auto count = *rc::gen::inRange<std::uint32_t>(1, 9);
  const auto each = *rc::gen::inRange<std::uint32_t>(1, 17);
  layout.depth = count * each;
  std::uint32_t left = layout.depth;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t later = count - i - 1;
    const auto chunks = later == 0 ? left : *rc::gen::inRange<std::uint32_t>(1, left - later + 1);
    left -= chunks;
    const auto addr = *rc::gen::arbitrary<std::uint64_t>() >> 1;
    const Descriptor run{addr, *rc::gen::arbitrary<std::uint32_t>(), chunks * layout.chunk};
    layout.runs.push_back(run);
    for (std::uint32_t c = 0; c < chunks; ++c) {
      layout.chunks.push_back({run.addr + std::uint64_t{c} * layout.chunk, run.key, layout.chunk});
    }
  }
  return layout;
}

RC_GTEST_PROP(InfoRsp, EveryChunkIsFound, ()) {
  const Layout layout = any_layout();
  const Buffer bytes = info_rsp(layout.runs);
  const auto parsed = parse_info_rsp(bytes, layout.depth, layout.chunk);
  RC_ASSERT(parsed.why == Refusal::none);
  RC_ASSERT(parsed.value.sg_cnt == layout.runs.size());
  ChunkWalk walk(bytes, layout.chunk);
  for (std::uint32_t i = 0; i < layout.depth; ++i) {
    RC_ASSERT(info_rsp_chunk(bytes, i, layout.chunk).value == layout.chunks[i]);
    RC_ASSERT(walk.next().value == layout.chunks[i]);
  }
  RC_ASSERT(walk.next().why == Refusal::bad_buffer_id);
  RC_ASSERT(info_rsp_chunk(bytes, layout.depth, layout.chunk).why == Refusal::bad_buffer_id);
}

RC_GTEST_PROP(InfoRsp, DamageNeverReadsOutside, ()) {
  const Layout layout = any_layout();
  const test::Exact bytes{test::damaged(info_rsp(layout.runs))};
  const auto parsed = parse_info_rsp(bytes.view(), layout.depth, layout.chunk);
  ChunkWalk walk(bytes.view(), layout.chunk);
  for (std::uint32_t i = 0; i <= layout.depth; ++i) {
    const auto found = info_rsp_chunk(bytes.view(), i, layout.chunk);
    const auto walked = walk.next();
    RC_ASSERT(found.why == walked.why);
    RC_ASSERT(found.value == walked.value);
    if (parsed) RC_ASSERT(static_cast<bool>(found) == (i < layout.depth));
  }
}

TEST(InfoRsp, BytesBehindTheLastRunAreNoRun) {
  Buffer bytes = info_rsp({{0x1000, 7, 4 * 8192}, {0x100000, 8, 4 * 8192}});
  bytes[2] = std::byte{1};  // the count
  EXPECT_EQ(parse_info_rsp(bytes, 4, 8192).why, Refusal::none);
  EXPECT_EQ(info_rsp_descriptor(bytes, 1).why, Refusal::bad_count);
  EXPECT_EQ(info_rsp_chunk(bytes, 4, 8192).why, Refusal::bad_buffer_id);
}

TEST(InfoRsp, RefusesWithTheRightReason) {
  const Descriptor run{0x1000, 7, 4 * 8192};
  EXPECT_EQ(judged({run, run}, 8, 8192), Refusal::none);
  EXPECT_EQ(judged({run}, 8, 8192), Refusal::bad_length);
  EXPECT_EQ(judged({run, run, run}, 8, 8192), Refusal::bad_count) << "3 is not a divisor of 8";
  EXPECT_EQ(judged({run, run, run, run}, 8, 8192), Refusal::bad_length);
  EXPECT_EQ(judged({run, run}, 1, 8192), Refusal::bad_count) << "more runs than chunks";
  EXPECT_EQ(judged({run, run}, 0, 8192), Refusal::bad_depth);
  EXPECT_EQ(judged({run, run}, 8, 0), Refusal::bad_chunk_size);
  EXPECT_EQ(judged({run, run}, 65535, 8192), Refusal::bad_chunk_size);
  EXPECT_EQ(judged({{0x1000, 7, 0}, run}, 8, 8192), Refusal::bad_descriptor);
  EXPECT_EQ(judged({{0x1000, 7, 8191}, run}, 8, 8192), Refusal::bad_descriptor);
  EXPECT_EQ(judged({{UINT64_MAX - 32767, 7, 32768}, run}, 8, 8192), Refusal::none) << "ends at the last byte";
  EXPECT_EQ(judged({{UINT64_MAX - 32766, 7, 32768}, run}, 8, 8192), Refusal::bad_descriptor);

  const Buffer good = info_rsp({run, run});
  EXPECT_EQ(parse_info_rsp(Bytes{good}.first(7), 8, 8192).why, Refusal::too_short);
  EXPECT_EQ(parse_info_rsp(Bytes{good}.first(39), 8, 8192).why, Refusal::too_short);
  EXPECT_EQ(parse_info_rsp(test::with_byte(good, 0, 2), 8, 8192).why, Refusal::bad_type);
  EXPECT_EQ(parse_info_rsp(test::with_byte(good, 2, 0), 8, 8192).why, Refusal::bad_count);
  EXPECT_EQ(parse_info_rsp(test::with_byte(good, 3, 0xff), 8, 8192).why, Refusal::too_short);
}

TEST(InfoRsp, SumOfLengthsDoesNotWrap) {
  // The runs are 2^32 bytes too long in total, which a 32-bit sum would not detect.
  std::vector<Descriptor> runs(16, Descriptor{0, 1, 0x10000000});
  runs[0].len += 16 * 8192;
  EXPECT_EQ(judged(runs, 16, 8192), Refusal::bad_length);
}

TEST(InfoRsp, EncodeRefusesInvalidValues) {
  Buffer out(64, std::byte{0xee});
  EXPECT_EQ(encode_info_rsp({}, out), 0U);
  const std::vector<Descriptor> runs(4);
  EXPECT_EQ(encode_info_rsp(runs, out), 0U);
  EXPECT_EQ(out, Buffer(64, std::byte{0xee}));
  Buffer big(info_rsp_bytes(65536));
  EXPECT_EQ(encode_info_rsp(std::vector<Descriptor>(65536), big), 0U);
}

TEST(InfoRsp, ZeroChunkSizeFindsNoChunk) {
  const Buffer bytes = info_rsp({{0x1000, 7, 8192}});
  EXPECT_EQ(info_rsp_chunk(bytes, 0, 0).why, Refusal::bad_buffer_id);
  EXPECT_EQ(ChunkWalk(bytes, 0).next().why, Refusal::bad_buffer_id);
}

constexpr std::size_t kChunk = 8192;

// Returns a chunk with `header` at offset `off`, truncated at the end of the chunk.
template <class Header>
Buffer chunk_with(const Header& header, std::size_t off) {
  const Buffer bytes = test::encoded(header);
  Buffer chunk(kChunk, std::byte{0});
  for (std::size_t i = 0; i < bytes.size() && off + i < kChunk; ++i) chunk[off + i] = bytes[i];
  return chunk;
}

Refusal judged(const Buffer& chunk, std::uint32_t off, bool generation = false) {
  const test::Exact exact{chunk};
  return parse_io_request(exact.view(), 0, off, generation).why;
}

IoRequest write_header(std::uint16_t usr_len = 0, std::uint8_t generation = 0) {
  return IoRequest{.generation = generation, .usr_len = usr_len};
}
IoRequest read_header(std::uint32_t len = 4096) {
  return IoRequest{.direction = Direction::read,
                   .usr_len = 32,
                   .need_inval = true,
                   .has_descriptor = true,
                   .desc = Descriptor{0x7000, 5, len}};
}

TEST(IoRequest, WriteIsUnderstood) {
  const Buffer chunk = chunk_with(write_header(32, 9), 4128);
  const auto parsed = parse_io_request(chunk, 6, 4128, true);
  ASSERT_TRUE(parsed) << to_string(parsed.why);
  IoRequest expected;
  expected.generation = 9;
  expected.buf_id = 6;
  expected.off = 4128;
  expected.data_len = 4096;
  expected.usr_len = 32;
  EXPECT_EQ(parsed.value, expected);
  const Bytes user = user_header(chunk, parsed.value);
  EXPECT_EQ(user.data(), chunk.data() + 4096);
  EXPECT_EQ(user.size(), 32U);
}

TEST(IoRequest, HeaderMustFitTheChunk) {
  EXPECT_EQ(judged(chunk_with(write_header(), kChunk - 4), kChunk - 4), Refusal::none);
  for (std::uint32_t off = kChunk - 3; off < kChunk + 4; ++off) {
    EXPECT_EQ(judged(chunk_with(write_header(), off), off), Refusal::bad_offset) << off;
  }
  EXPECT_EQ(judged(chunk_with(read_header(), kChunk - 24), kChunk - 24), Refusal::none);
  for (std::uint32_t off = kChunk - 23; off < kChunk; ++off) {
    EXPECT_EQ(judged(chunk_with(read_header(), off), off), Refusal::bad_offset) << off;
  }
  EXPECT_EQ(judged(chunk_with(IoRequest{.direction = Direction::read}, kChunk - 8), kChunk - 8),
            Refusal::none);
  EXPECT_EQ(judged(chunk_with(IoRequest{.direction = Direction::read}, kChunk - 7), kChunk - 7),
            Refusal::bad_offset);
  EXPECT_EQ(judged(chunk_with(write_header(), 0), UINT32_MAX), Refusal::bad_offset);
  EXPECT_EQ(judged(Buffer{}, 0), Refusal::bad_offset);
}

TEST(IoRequest, RefusesWithTheRightReason) {
  const Buffer write = chunk_with(write_header(32), 100);
  EXPECT_EQ(judged(test::with_byte(write, 100, 1), 100), Refusal::bad_type);
  EXPECT_EQ(judged(test::with_byte(write, 100, 4), 100), Refusal::bad_type);
  EXPECT_EQ(judged(test::with_byte(write, 101, 1), 100), Refusal::unnegotiated_generation);
  EXPECT_EQ(judged(test::with_byte(write, 101, 1), 100, true), Refusal::none);
  EXPECT_EQ(judged(test::with_byte(write, 102, 100), 100), Refusal::none) << "user header from byte 0";
  EXPECT_EQ(judged(test::with_byte(write, 102, 101), 100), Refusal::bad_user_length);

  const Buffer read = chunk_with(read_header(), 100);
  EXPECT_EQ(judged(test::with_byte(read, 102, 101), 100), Refusal::bad_user_length);
  EXPECT_EQ(judged(test::with_byte(read, 106, 2), 100), Refusal::bad_sg_count);
  EXPECT_EQ(judged(test::with_byte(read, 107, 1), 100), Refusal::bad_sg_count) << "0x0101 is not 1";
  EXPECT_EQ(judged(chunk_with(read_header(0), 100), 100), Refusal::bad_descriptor);
  EXPECT_EQ(judged(chunk_with(read_header(kChunk), 100), 100), Refusal::none);
  EXPECT_EQ(judged(chunk_with(read_header(kChunk + 1), 100), 100), Refusal::bad_descriptor);
  IoRequest wrapping = read_header(4096);
  wrapping.desc.addr = UINT64_MAX - 4094;
  EXPECT_EQ(judged(chunk_with(wrapping, 100), 100), Refusal::bad_descriptor);
}

TEST(IoRequest, NeedInvalIsIgnoredWithoutDescriptor) {
  const Buffer chunk = chunk_with(IoRequest{.direction = Direction::read, .need_inval = true}, 64);
  const auto parsed = parse_io_request(chunk, 0, 64, false);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed.value.need_inval);
  EXPECT_FALSE(parsed.value.has_descriptor);
}

// Random bytes as a header, at any offset in or beyond the chunk.
RC_GTEST_PROP(IoRequest, AnyHeaderIsRefusedOrStable, (bool generation)) {
  const bool write = *rc::gen::arbitrary<bool>();
  const auto usr_len = *rc::gen::inRange<std::uint16_t>(0, 256);
  const bool desc = *rc::gen::arbitrary<bool>();
  IoRequest read = read_header();
  read.usr_len = usr_len;
  read.need_inval = *rc::gen::arbitrary<bool>();
  read.has_descriptor = desc;
  Buffer header = write ? test::encoded(write_header(usr_len)) : test::encoded(read);
  header = test::damaged(std::move(header));
  const auto near_end = *rc::gen::inRange<std::uint32_t>(kChunk - 32, kChunk + 2);
  const auto off = *rc::gen::element(*rc::gen::inRange<std::uint32_t>(0, kChunk), near_end);
  Buffer chunk(kChunk, std::byte{0});
  for (std::size_t i = 0; i < header.size() && off + i < kChunk; ++i) chunk[off + i] = header[i];

  const test::Exact exact{chunk};
  const auto first = parse_io_request(exact.view(), 3, off, generation);
  RC_CLASSIFY(first.why == Refusal::none, "accepted");
  if (!first) return;
  const IoRequest& r = first.value;
  RC_ASSERT(std::size_t{r.data_len} + r.usr_len == off);
  RC_ASSERT(!r.has_descriptor || (r.desc.len >= 1 && r.desc.len <= kChunk));
  RC_ASSERT(generation || r.generation == 0);
  RC_ASSERT(user_header(exact.view(), r).size() == r.usr_len);
  const auto second = parse_io_request(chunk_with(r, r.off), 3, off, generation);
  RC_ASSERT(second.why == Refusal::none);
  RC_ASSERT(second.value == r);
}

TEST(IoRequest, UserHeaderOfAnotherChunkIsEmpty) {
  IoRequest request;
  request.data_len = 8000;
  request.usr_len = 193;
  EXPECT_TRUE(user_header(Buffer(kChunk), request).empty());
}

}  // namespace
}  // namespace rtrs::wire::io_messages_test
