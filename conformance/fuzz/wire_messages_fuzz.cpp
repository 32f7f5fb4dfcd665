// Fuzzes the RTRS parsers. Any bytes must give a named error, or a value whose encoding parses to the same
// value. The first byte selects the parser; the next eight are queue depth and chunk size, or the offset of a
// request's header.
#include <algorithm>
#include <array>
#include <span>

#include "conformance/fuzz/fuzz.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/key_proof.hpp"
#include "core/wire/messages.hpp"

using namespace rtrs::wire;

namespace {

template <class Value, class Parse>
void check_stable(const Parsed<Value>& first, Parse parse) {
  RTRS_FUZZ_CHECK(static_cast<unsigned>(first.why) < kRefusalCount);
  if (!first) return;
  std::array<std::byte, 512> out{};
  const std::size_t size = encode(first.value, out);
  RTRS_FUZZ_CHECK(size != 0);
  const auto second = parse(Bytes(out).first(size));
  RTRS_FUZZ_CHECK(second && second.value == first.value);
}

// Removing a key offer must leave no trace of the offer.
void key_offers(Bytes bytes) {
  const auto offer = key_offer(bytes);
  if (!offer) return;
  std::array<std::byte, kConnReqBytes> copy;
  std::copy_n(bytes.begin(), copy.size(), copy.begin());
  clear_key_offer(copy);
  RTRS_FUZZ_CHECK(!key_offer(copy));
  put_key_offer(copy, *offer);
  RTRS_FUZZ_CHECK(std::equal(copy.begin(), copy.end(), bytes.begin()));
}

void key_answers(Bytes bytes) {
  RTRS_FUZZ_CHECK(!key_challenge(bytes) || !server_key_proof(bytes));
  if (bytes.size() < kConnRspBytes) return;
  std::array<std::byte, kConnRspBytes> copy;
  std::copy_n(bytes.begin(), copy.size(), copy.begin());
  clear_key_answer(copy);
  RTRS_FUZZ_CHECK(!key_challenge(copy) && !server_key_proof(copy));
}

void info_response(Bytes bytes, std::uint32_t depth, std::uint32_t chunk_size) {
  (void)info_rsp_descriptor(bytes, depth);
  (void)info_rsp_chunk(bytes, depth, chunk_size);
  const auto parsed = parse_info_rsp(bytes, depth, chunk_size);
  if (!parsed) return;
  ChunkWalk walk(bytes, chunk_size);
  for (std::uint32_t chunk = 0; chunk < depth; ++chunk) {
    const auto next = walk.next();
    RTRS_FUZZ_CHECK(next);
    // info_rsp_chunk() walks over all descriptors, so only some chunks are checked.
    if (chunk % 257 != 0) continue;
    RTRS_FUZZ_CHECK(info_rsp_chunk(bytes, chunk, chunk_size).value == next.value);
  }
  RTRS_FUZZ_CHECK(!walk.next());
}

void request(Bytes chunk, std::uint32_t off, bool generation) {
  const auto parsed = parse_io_request(chunk, 3, off, generation);
  if (!parsed) return;
  const IoRequest& found = parsed.value;
  RTRS_FUZZ_CHECK(found.off == off && found.data_len + found.usr_len == off && off < chunk.size());
  RTRS_FUZZ_CHECK(generation || found.generation == 0);
  RTRS_FUZZ_CHECK(!found.has_descriptor || (found.desc.len != 0 && found.desc.len <= chunk.size()));
  RTRS_FUZZ_CHECK(!found.need_inval || found.has_descriptor);
  RTRS_FUZZ_CHECK(user_header(chunk, found).size() == found.usr_len);
}

void immediate(std::uint32_t imm, std::uint32_t depth) {
  if (depth == 0 || depth > 0xffff) return;
  const auto target = decode_io_req(depth, imm);
  RTRS_FUZZ_CHECK(target.off < (1U << kImmPayloadBits));
  (void)decode_io_rsp(imm);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 9) return 0;
  const Bytes all = std::as_bytes(std::span(data, size));
  const std::uint32_t one = load_le32(all, 1);
  const std::uint32_t two = load_le32(all, 5);
  const Bytes bytes = all.subspan(9);
  switch (data[0] % 10) {
    case 0:
      check_stable(parse_conn_req(bytes), parse_conn_req);
      key_offers(bytes);
      break;
    case 1: {
      const auto cid = static_cast<std::uint16_t>(one);
      check_stable(parse_conn_rsp(bytes, cid), [cid](Bytes again) { return parse_conn_rsp(again, cid); });
      const int error = reject_errno(bytes);
      RTRS_FUZZ_CHECK(error >= 1 && error <= 4095);
      key_answers(bytes);
      break;
    }
    case 2:
      // The parser accepts any name; only valid session names are encoded.
      if (const auto parsed = parse_info_req(bytes); parsed && valid_session_name(parsed.value.name.view()))
        check_stable(parsed, parse_info_req);
      break;
    case 3:
      info_response(bytes, one % 0x10000, two);
      break;
    case 4:
      check_stable(parse_rkey_rsp(bytes, one), [one](Bytes again) { return parse_rkey_rsp(again, one); });
      break;
    case 5:
      request(bytes, one, (two & 1) != 0);
      break;
    case 6:
      check_stable(parse_fence_req(bytes), parse_fence_req);
      break;
    case 7:
      check_stable(parse_fence_rsp(bytes), parse_fence_rsp);
      break;
    case 8:
      (void)send_type(bytes);
      immediate(one, two);
      break;
    default:
      (void)load_name(bytes, one);
      break;
  }
  return 0;
}
