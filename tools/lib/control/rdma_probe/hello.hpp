// Protocol between two probes. Numbers are big-endian. Messages of a peer are not trusted.
//
//   request (private data): "URTRSPRB", version 1 (4 bytes), 16 bytes of 0
//   response (private data): "URTRSPRB", version 1, then rkey (4 bytes), address (8) and length (4) of the
//     memory that the client may write to
//   round N: the client writes pattern N to the memory, then sends an empty write with immediate N. The
//     server answers with an empty write: immediate N if the memory has the pattern, otherwise kWrong.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::probe {

constexpr std::size_t kPatternBytes = 4096;
constexpr std::size_t kPeerMemory = std::size_t{128} << 10U;
constexpr std::uint32_t kWrong = 0xffffffff;  // answer of the server for wrong data; not a valid round number
constexpr std::uint32_t kMaxRounds = 0x7fffffff;

struct Hello {
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
};
using HelloBytes = std::array<std::byte, 28>;

HelloBytes encode(const Hello&);
// Returns nullopt if the bytes are not from a probe of this version. Ignores bytes after the message.
std::optional<Hello> decode(std::span<const std::byte>);

// Fills the memory so that every 8-byte word of every round has a different number.
void make_pattern(std::span<std::byte, kPatternBytes>, std::uint64_t round);
bool has_pattern(std::span<const std::byte, kPatternBytes>, std::uint64_t round);

}  // namespace rtrs::probe
