// Decodes immediates (protocol section 1.3) independently of the product's code, so that an error there is
// not repeated here.
#pragma once
#include <cstdint>

namespace rtrs::spec {

inline constexpr unsigned kIoReq = 0, kIoRsp = 1, kIoRspInv = 2, kHbMsg = 8, kHbAck = 9;

constexpr unsigned log2up(std::uint64_t n) noexcept {
  unsigned bits = 0;
  while ((std::uint64_t{1} << bits) < n) ++bits;
  return bits;
}
constexpr unsigned imm_type(std::uint32_t imm) noexcept {
  return imm >> 28;
}
constexpr std::uint32_t imm_payload(std::uint32_t imm) noexcept {
  return imm & 0x0fffffff;
}
constexpr std::uint32_t request_imm(std::uint32_t depth, std::uint32_t buf_id, std::uint32_t off) noexcept {
  return (buf_id << (28 - log2up(depth))) + off;
}
constexpr std::uint32_t request_buf_id(std::uint32_t depth, std::uint32_t imm) noexcept {
  return imm_payload(imm) >> (28 - log2up(depth));
}
constexpr std::uint32_t request_off(std::uint32_t depth, std::uint32_t imm) noexcept {
  return imm_payload(imm) & ((std::uint32_t{1} << (28 - log2up(depth))) - 1);
}
constexpr std::uint32_t response_errno(std::uint32_t imm) noexcept {
  return (imm >> 19) & 0x1ff;
}
constexpr std::uint32_t response_id(std::uint32_t imm) noexcept {
  return imm & 0x7ffff;
}
// Number of generation bits in a response id (docs/architecture.md). The id has 19 bits; the generation uses
// at most 8 of the bits that the permit leaves free.
constexpr unsigned generation_bits(std::uint32_t depth) noexcept {
  const unsigned left = 19 - log2up(depth);
  return left < 8 ? left : 8;
}
constexpr std::uint32_t tagged_id(std::uint32_t depth, std::uint32_t buf_id,
                                  std::uint8_t generation) noexcept {
  return (static_cast<std::uint32_t>(generation & ((1U << generation_bits(depth)) - 1)) << log2up(depth)) |
         buf_id;
}
constexpr bool newer(std::uint16_t a, std::uint16_t b) noexcept {
  return static_cast<std::uint16_t>(a - b) != 0 && static_cast<std::uint16_t>(a - b) < 0x8000;
}

inline constexpr std::uint32_t kNewRkeyFlag = 0x2, kFenceFlag = 0x100, kGenerationFlag = 0x200,
                               kProbeFlag = 0x400, kKeysStayFlag = 0x800, kDataWithAnswerFlag = 0x1000;
inline constexpr std::uint8_t kFenceExtension = 1, kGenerationExtension = 2, kProbeExtension = 4,
                              kKeysStayExtension = 8, kDataWithAnswerExtension = 16;

}  // namespace rtrs::spec
