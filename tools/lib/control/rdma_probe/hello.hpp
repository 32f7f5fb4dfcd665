// What two probes tell each other, in figures of the network's order. Of a peer nothing is trusted.
//
//   request: "URTRSPRB", version 1, 4 bytes of 0
//   answer: the same with the key, the address and the length of memory that the client may write to
//   round N: a write of the pattern N to the memory, then an empty write with the immediate N; the answer is
//   an empty write with the immediate N where the memory held the pattern, and with kWrong where it did not
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::probe {

constexpr std::size_t kPatternBytes = 4096;
constexpr std::size_t kPeerMemory = std::size_t{128} << 10U;
constexpr std::uint32_t kWrong = 0xffffffff;  // is no round
constexpr std::uint32_t kMostRounds = 0x7fffffff;

struct Hello {
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
};
using HelloBytes = std::array<std::byte, 28>;

HelloBytes encode(const Hello&);
// Nothing: these are not the words of a probe of this version. There may be more behind them.
std::optional<Hello> decode(std::span<const std::byte>);

// Another number in each word of each round.
void make_pattern(std::span<std::byte, kPatternBytes>, std::uint64_t round);
bool has_pattern(std::span<const std::byte, kPatternBytes>, std::uint64_t round);

}  // namespace rtrs::probe
