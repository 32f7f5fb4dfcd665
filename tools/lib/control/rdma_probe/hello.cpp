#include "tools/lib/control/rdma_probe/hello.hpp"

#include <algorithm>
#include <cstring>

namespace rtrs::probe {
namespace {

constexpr char kMagic[] = "URTRSPRB";
constexpr std::size_t kMagicSize = sizeof kMagic - 1;
constexpr std::uint32_t kVersion = 1;
constexpr unsigned kByteBits = 8;

template <class Number>
void put(HelloBytes& bytes, std::size_t& at, Number number) {
  for (unsigned i = 0; i < sizeof(Number); ++i)
    bytes[at++] = static_cast<std::byte>(number >> (kByteBits * (sizeof(Number) - 1 - i)));
}

template <class Number>
Number take(std::span<const std::byte> bytes, std::size_t& at) {
  Number number = 0;
  for (unsigned i = 0; i < sizeof(Number); ++i)
    number = static_cast<Number>((number << kByteBits) | std::to_integer<Number>(bytes[at++]));
  return number;
}

std::uint64_t word_of(std::uint64_t round, std::size_t at) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  return (round + 1) * kOdd + at;
}

}  // namespace

HelloBytes encode(const Hello& hello) {
  HelloBytes bytes{};
  std::memcpy(bytes.data(), kMagic, kMagicSize);
  std::size_t at = kMagicSize;
  put(bytes, at, kVersion);
  put(bytes, at, hello.key);
  put(bytes, at, hello.address);
  put(bytes, at, hello.length);
  return bytes;
}

std::optional<Hello> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < std::tuple_size_v<HelloBytes> || std::memcmp(bytes.data(), kMagic, kMagicSize) != 0)
    return std::nullopt;
  std::size_t at = kMagicSize;
  if (take<std::uint32_t>(bytes, at) != kVersion) return std::nullopt;
  Hello hello;
  hello.key = take<std::uint32_t>(bytes, at);
  hello.address = take<std::uint64_t>(bytes, at);
  hello.length = take<std::uint32_t>(bytes, at);
  return hello;
}

void make_pattern(std::span<std::byte, kPatternBytes> bytes, std::uint64_t round) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_of(round, at);
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

bool has_pattern(std::span<const std::byte, kPatternBytes> bytes, std::uint64_t round) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_of(round, at);
    if (std::memcmp(bytes.data() + at, &word, sizeof word) != 0) return false;
  }
  return true;
}

}  // namespace rtrs::probe
