// Small hash functions of the simulation; equal results on every platform and compiler.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rtrs::sim {

constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
constexpr std::uint64_t fold(std::uint64_t hash, std::uint64_t word) noexcept {
  return mix(hash ^ word);
}
inline std::uint64_t digest_of(std::span<const std::byte> bytes) noexcept {
  std::uint64_t hash = bytes.size();
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    hash = (hash ^ word) * 0x9ddfea08eb382d69ULL;
    hash ^= hash >> 29;
  }
  for (; at < bytes.size(); ++at) hash = fold(hash, std::to_integer<std::uint64_t>(bytes[at]));
  return mix(hash);
}

}  // namespace rtrs::sim
