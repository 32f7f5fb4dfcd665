// Replaces HMAC-SHA256 in simulations and tests; not cryptographically secure.
#pragma once
#include "core/keyed/key_proof.hpp"

namespace rtrs::keyed {

inline Mac toy_mac(std::span<const std::byte> key, std::span<const std::byte> message) noexcept {
  Mac mac{};
  for (std::size_t lane = 0; lane < 4; ++lane) {
    std::uint64_t state = 0x9e3779b97f4a7c15ULL * (lane + 1);
    const auto mix = [&state](std::uint64_t word) {
      std::uint64_t z = (state += word + 0x9e3779b97f4a7c15ULL);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      state = z ^ (z >> 31);
    };
    for (const auto part : {key, message}) {
      std::span<const std::byte> rest = part;
      for (; rest.size() >= 8; rest = rest.subspan(8)) mix(wire::load_le64(rest, 0));
      for (const std::byte byte : rest) mix(std::to_integer<std::uint64_t>(byte));
      mix(0x100 + part.size());
    }
    wire::store_le64(mac, 8 * lane, state);
  }
  return mac;
}

}  // namespace rtrs::keyed
