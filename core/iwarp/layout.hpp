// Sizes and layout of the iWARP wire format: MPA (RFC 5044, 6581), DDP (RFC 5041), RDMAP (RFC 5040, 7306).
// All integers are big-endian except the CRC, which is sent least significant byte first. Tables:
// docs/iwarp.md.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rtrs::iwarp {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// --- an FPDU: length, ULPDU, zero padding to a multiple of 4, CRC (0 if CRC is off) ---
inline constexpr std::size_t kLengthBytes = 2;
inline constexpr std::size_t kCrcBytes = 4;
inline constexpr std::size_t kTaggedBytes = 14;    // DDP and RDMAP header of a tagged segment
inline constexpr std::size_t kUntaggedBytes = 18;  // headers of an untagged segment
inline constexpr std::size_t kMaxHeaderBytes = kLengthBytes + kUntaggedBytes;
inline constexpr std::size_t kImmediateBytes = 8;  // payload of an Immediate Data message
inline constexpr std::size_t kTerminateBytes = 4;  // part of a Terminate message that urtrs sends and reads
// Longest payload of a Terminate message: four bytes, a length and the headers of the faulty segment.
inline constexpr std::size_t kMaxTerminateBytes = 64;

// Number of zero bytes after a ULPDU of this length.
constexpr std::size_t padding(std::size_t ulpdu) noexcept {
  return (0 - kLengthBytes - ulpdu) & 3U;
}
// Total size in bytes of an FPDU with a ULPDU of this length.
constexpr std::size_t fpdu_bytes(std::size_t ulpdu) noexcept {
  return kLengthBytes + ulpdu + padding(ulpdu) + kCrcBytes;
}
inline constexpr std::size_t kMaxFpduBytes = fpdu_bytes(0xffff);

// --- first byte: DDP control ---
inline constexpr unsigned kTagged = 0x80;
inline constexpr unsigned kLast = 0x40;
inline constexpr unsigned kDdpVersionMask = 0x03;
inline constexpr unsigned kDdpVersion = 0x01;
// --- second byte: RDMAP control ---
inline constexpr unsigned kRdmapVersionMask = 0xc0;
inline constexpr unsigned kRdmapVersion = 0x40;
inline constexpr unsigned kOpcodeMask = 0x0f;

enum class Opcode : std::uint8_t {
  write = 0,
  send = 3,
  send_invalidate = 4,
  // "Send with Solicited Event". If both peers agreed (greeting.hpp), the four bytes that are reserved in
  // other SENDs carry an immediate.
  send_solicited = 5,
  send_solicited_invalidate = 6,
  terminate = 7,
  immediate = 8,
};

inline constexpr std::uint32_t kSendQueue = 0;  // queue of SENDs and immediates
inline constexpr std::uint32_t kTerminateQueue = 2;
inline constexpr std::uint32_t kFirstNumber = 1;  // message sequence number of the first message of a queue

template <class T>
[[nodiscard]] inline T swap_bytes(T value) noexcept {
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(__builtin_bswap64(value));
  else if constexpr (sizeof(T) == 4)
    return static_cast<T>(__builtin_bswap32(value));
  else
    return static_cast<T>(__builtin_bswap16(value));
}
// Precondition for loads and stores: the bytes are inside the buffer.
template <class T>
[[nodiscard]] inline T load_be(const std::byte* from) noexcept {
  T value = 0;
  std::memcpy(&value, from, sizeof(T));
  return std::endian::native == std::endian::big ? value : swap_bytes(value);
}
template <class T>
inline void store_be(std::byte* to, T value) noexcept {
  if (std::endian::native != std::endian::big) value = swap_bytes(value);
  std::memcpy(to, &value, sizeof(T));
}

// Number of bytes before the payload, including the length field. Precondition: the first control byte has
// arrived.
[[nodiscard]] inline std::uint32_t header_bytes_of(const std::byte* fpdu) noexcept {
  const bool tagged = (std::to_integer<unsigned>(fpdu[kLengthBytes]) & kTagged) != 0;
  return kLengthBytes + (tagged ? kTaggedBytes : kUntaggedBytes);
}

}  // namespace rtrs::iwarp
