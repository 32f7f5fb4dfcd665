// HMAC-SHA256, the MAC for proofs of a shared key (core/keyed).
#pragma once
#include <array>
#include <cstddef>
#include <span>

namespace rtrs::tls {

using MacFunction = std::array<std::byte, 32> (*)(std::span<const std::byte> key,
                                                  std::span<const std::byte> message) noexcept;

// Null in a build without OpenSSL.
MacFunction hmac_sha256() noexcept;

}  // namespace rtrs::tls
