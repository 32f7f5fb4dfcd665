// Reads little-endian numbers and uuids from a message. Precondition: the bytes exist.
#pragma once
#include <cstdint>
#include <string_view>

#include "conformance/spec/event.hpp"

namespace rtrs::spec {

inline std::uint64_t number_at(std::string_view bytes, std::size_t at, unsigned width) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = width; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}
inline std::uint16_t u16_at(std::string_view bytes, std::size_t at) noexcept {
  return static_cast<std::uint16_t>(number_at(bytes, at, 2));
}
inline std::uint32_t u32_at(std::string_view bytes, std::size_t at) noexcept {
  return static_cast<std::uint32_t>(number_at(bytes, at, 4));
}
inline Uuid uuid_at(std::string_view bytes, std::size_t at) noexcept {
  Uuid uuid;
  for (std::size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<std::uint8_t>(bytes[at + i]);
  return uuid;
}

inline constexpr std::size_t kConReqBytes = 56, kConRspBytes = 56, kInfoReqBytes = 272, kInfoRspHeader = 8,
                             kDescriptorBytes = 16, kRkeyRspBytes = 8, kReadHeader = 8, kWriteHeader = 4,
                             kFenceBytes = 24;
inline constexpr std::uint16_t kInfoReq = 0, kInfoRsp = 1, kWrite = 2, kRead = 3, kRkeyRsp = 4,
                               kFenceReq = 0x4001, kFenceRsp = 0x4002;

}  // namespace rtrs::spec
