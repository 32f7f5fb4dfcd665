#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/wire/bytes.hpp"
#include "core/wire/messages.hpp"

/// Fields of the shared-key proof in CON_REQ and CON_RSP (protocol section 12), in bytes that other peers
/// leave zero. The functions work on whole messages as sent; none allocates or throws.
namespace rtrs::wire {

/// Nonce that the server issues for one path of one client; valid for a short time.
using KeyNonce = std::array<std::byte, 16>;
/// Truncated MAC of the client.
using KeyProof = std::array<std::byte, 8>;
/// A whole MAC, of the server.
using ServerKeyProof = std::array<std::byte, 32>;

/// Bytes of CON_REQ and CON_RSP that proofs are about: all before the proof. Not the first two of CON_REQ,
/// which the kernel of the client may use with AF_IB addresses.
inline constexpr std::size_t kProvenReqAt = 2;
inline constexpr std::size_t kProvenReqEnd = 48;
inline constexpr std::size_t kProvenRspBytes = 20;

/// Fields of a CON_REQ that offers key_proof.
struct KeyOffer {
  std::uint16_t hint = 0;  ///< which key: a digest of the identity
  KeyProof proof{};        ///< all zero: none yet
  [[nodiscard]] constexpr bool has_proof() const noexcept { return proof != KeyProof{}; }
  bool operator==(const KeyOffer&) const = default;
};

/// None where the message is too short or does not offer it.
[[nodiscard]] std::optional<KeyOffer> key_offer(Bytes conn_req) noexcept;
/// Offers it. Precondition of this and of what follows: kConnReqBytes or kConnRspBytes are there.
void put_key_offer(MutableBytes conn_req, const KeyOffer&) noexcept;
/// As if it had not been offered.
void clear_key_offer(MutableBytes conn_req) noexcept;

/// Nonce of a reject with EACCES that requires a proof; nullopt for any other message.
[[nodiscard]] std::optional<KeyNonce> key_challenge(Bytes conn_rsp) noexcept;
void put_key_challenge(MutableBytes conn_rsp, const KeyNonce&) noexcept;

/// Of an accept. None where the server gives none.
[[nodiscard]] std::optional<ServerKeyProof> server_key_proof(Bytes conn_rsp) noexcept;
/// Sets the flag alone, which the proof is about too.
void grant_key_proof(MutableBytes conn_rsp) noexcept;
void put_server_key_proof(MutableBytes conn_rsp, const ServerKeyProof&) noexcept;

/// The answer as a server without keys gives it.
void clear_key_answer(MutableBytes conn_rsp) noexcept;

}  // namespace rtrs::wire
