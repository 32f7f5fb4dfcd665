// The keys that clients share with the server. Each client keeps its key when it restarts.
#pragma once
#include <cstdint>
#include <string>

#include "core/keyed/keyed_fabric.hpp"
#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

inline keyed::Secret secret_of(std::uint64_t number) noexcept {
  keyed::Secret secret;
  for (std::size_t at = 0; at < secret.size(); ++at) {
    if (at % 8 == 0) number = mix(number);
    secret[at] = static_cast<std::byte>(number >> (at % 8 * 8));
  }
  return secret;
}

inline keyed::SharedKey shared_key(std::uint64_t seed, std::uint32_t client) {
  return {"client" + std::to_string(client), secret_of(seed ^ 0x6b6579 ^ client)};
}

}  // namespace rtrs::sim
