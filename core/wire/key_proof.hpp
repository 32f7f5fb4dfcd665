#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/wire/bytes.hpp"
#include "core/wire/messages.hpp"

/// Fields of the shared-key proof in CON_REQ and CON_RSP (protocol section 12), in bytes that other peers set
/// to zero. The functions take whole encoded messages. No function allocates or throws.
namespace rtrs::wire {

/// Nonce that the server issues for one path of one client; valid for a short time.
using KeyNonce = std::array<std::byte, 16>;
/// The client's proof: a truncated MAC.
using KeyProof = std::array<std::byte, 8>;
/// The server's proof: a full MAC.
using ServerKeyProof = std::array<std::byte, 32>;

/// Ranges of CON_REQ and CON_RSP that the proofs cover, in bytes: everything before the proof, except the
/// first two bytes of CON_REQ, which the client's kernel may use with AF_IB addresses.
inline constexpr std::size_t kProvenReqAt = 2;
inline constexpr std::size_t kProvenReqEnd = 48;
inline constexpr std::size_t kProvenRspBytes = 20;

/// Fields of a CON_REQ that offers key_proof.
struct KeyOffer {
  std::uint16_t hint = 0;  ///< selects the key: a digest of the identity
  KeyProof proof{};        ///< all zero: no proof yet
  [[nodiscard]] constexpr bool has_proof() const noexcept { return proof != KeyProof{}; }
  bool operator==(const KeyOffer&) const = default;
};

/// Returns nullopt if the message is too short or does not offer key_proof.
[[nodiscard]] std::optional<KeyOffer> key_offer(Bytes conn_req) noexcept;
/// Adds the offer. Precondition of this and the following functions: the message has kConnReqBytes or
/// kConnRspBytes bytes.
void put_key_offer(MutableBytes conn_req, const KeyOffer&) noexcept;
/// Removes the offer.
void clear_key_offer(MutableBytes conn_req) noexcept;

/// Returns the nonce in a reject with EACCES that requires a proof; nullopt for any other message.
[[nodiscard]] std::optional<KeyNonce> key_challenge(Bytes conn_rsp) noexcept;
void put_key_challenge(MutableBytes conn_rsp, const KeyNonce&) noexcept;

/// Returns the server's proof in an accept, or nullopt.
[[nodiscard]] std::optional<ServerKeyProof> server_key_proof(Bytes conn_rsp) noexcept;
/// Sets only the flag, because the server's proof covers the flag.
void grant_key_proof(MutableBytes conn_rsp) noexcept;
void put_server_key_proof(MutableBytes conn_rsp, const ServerKeyProof&) noexcept;

/// Removes flag and proof, as in the response of a server without keys.
void clear_key_answer(MutableBytes conn_rsp) noexcept;

}  // namespace rtrs::wire
