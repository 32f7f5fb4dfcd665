// Proofs of a shared key during connection set-up (protocol section 12): computed by a client, verified by a
// server. Pure decision logic: time, random numbers and the MAC function are passed in. No key leaves these
// types.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"
#include "core/wire/key_proof.hpp"

namespace rtrs::keyed {

using Mac = std::array<std::byte, 32>;
using Secret = std::array<std::byte, 32>;
// A 32-byte message authentication code. Programs use HMAC-SHA256.
using MacFunction = Mac (*)(std::span<const std::byte> key, std::span<const std::byte> message) noexcept;

struct SharedKey {
  std::string identity;  // 1 to 128 characters of A-Z a-z 0-9 . _ : @ -
  Secret secret{};
};

// Compares in constant time. Precondition: equal length.
[[nodiscard]] bool same_bytes(std::span<const std::byte>, std::span<const std::byte>) noexcept;

// Returns a short hint of an identity for CON_REQ, so that a server with many keys has to try only a few.
[[nodiscard]] std::uint16_t hint_of(MacFunction, std::string_view identity);
// Returns the digest of an identity; equal only for equal names.
[[nodiscard]] PeerIdentity digest_of(MacFunction, std::string_view identity);

// Computes the client's proof over the start of a CON_REQ.
[[nodiscard]] wire::KeyProof client_proof(MacFunction, const Secret&, const wire::KeyNonce&,
                                          wire::Bytes conn_req);
// Computes the server's proof over the CON_REQ and over the start of its accept, in which the flag is set.
[[nodiscard]] wire::ServerKeyProof server_proof(MacFunction, const Secret&, const wire::KeyNonce&,
                                                wire::Bytes conn_req, wire::Bytes conn_rsp);

// The keys of a server, indexed by hint.
class KeyTable {
 public:
  KeyTable(MacFunction, const std::vector<SharedKey>&);
  using Range = std::multimap<std::uint16_t, SharedKey>::const_iterator;
  [[nodiscard]] std::pair<Range, Range> of(std::uint16_t hint) const { return keys_.equal_range(hint); }

 private:
  std::multimap<std::uint16_t, SharedKey> keys_;
};

// off: no proof is requested. allow: a client that offers no proof, such as a kernel client, is accepted
// without an identity.
enum class Mode : std::uint8_t { off, allow, require };

// Server side: checks the proofs of clients. Unauthenticated clients cost no memory, because a nonce contains
// its creation time and a MAC by which the server recognises the nonce.
class Gate {
 public:
  static constexpr Nanos kEpoch = seconds(10);
  static constexpr std::uint64_t kValidEpochs = 3;  // a nonce is valid for 20 to 30 s
  static constexpr std::size_t kMaxSeen = 4096;

  // `secret`: private to this server, constant for one run.
  Gate(MacFunction mac, const Secret& secret) : mac_(mac), secret_(secret) { seen_.reserve(kMaxSeen); }

  // The part that a request lacks, if it is rejected with key_refused.
  enum class MissingPart : std::uint8_t { nothing, offer, identity, key, freshness };
  struct Verdict {
    Reason refusal = Reason::none;
    MissingPart lack = MissingPart::nothing;
    const std::string* named =
        nullptr;                     // for MissingPart::key and MissingPart::freshness: the claimed identity
    bool challenges = false;         // the reject carries `nonce`
    const SharedKey* key = nullptr;  // key of a valid proof, made with `nonce`
    wire::KeyNonce nonce{};
  };
  // `conn_req` must parse; `host` is the digest of the client's address. Each valid proof is accepted only
  // once.
  [[nodiscard]] Verdict judge(Nanos now, wire::Bytes conn_req, std::uint32_t host, const KeyTable&, Mode);
  // Number of remembered proofs.
  [[nodiscard]] std::size_t seen() const noexcept { return seen_.size(); }

 private:
  struct Seen {
    std::uint64_t epoch = 0;
    wire::KeyProof proof{};
  };
  wire::KeyNonce nonce_of(std::uint64_t epoch, wire::Bytes conn_req, std::uint32_t host) const;
  bool was_seen(const wire::KeyProof&) const noexcept;
  // Forgets proofs of expired epochs.
  void advance(Nanos now);

  MacFunction mac_;
  Secret secret_;
  std::uint64_t epoch_ = 0;
  std::uint64_t first_valid_epoch_ = 0;  // first epoch whose nonces are valid
  std::vector<Seen> seen_;
};

// Client side: adds proofs to connect requests and checks the proofs of servers.
class Prover {
 public:
  // Maximum age of a nonce that the client uses. Less than the 20 s for which every server accepts a nonce.
  static constexpr Nanos kNonceUse = seconds(15);
  static constexpr std::size_t kMaxNonces = 128;

  Prover(MacFunction mac, SharedKey key)
      : mac_(mac), key_(std::move(key)), hint_(hint_of(mac, key_.identity)) {
    known_.reserve(kMaxNonces);
  }

  // Returns the nonce for the path of this CON_REQ, or null.
  [[nodiscard]] const wire::KeyNonce* nonce_for(Nanos now, wire::Bytes conn_req) const noexcept;
  void remember(Nanos now, wire::Bytes conn_req, const wire::KeyNonce&) noexcept;
  // Writes the offer and the proof into a CON_REQ; without a nonce only the offer.
  void prove(wire::MutableBytes conn_req, const wire::KeyNonce*) const;
  // Returns true if the accepting server has proved that it has the same key.
  [[nodiscard]] bool accepts(const wire::KeyNonce&, wire::Bytes conn_req, wire::Bytes conn_rsp) const;

 private:
  struct Known {
    wire::Uuid path{};
    wire::KeyNonce nonce{};
    Nanos since = 0;
  };
  MacFunction mac_;
  SharedKey key_;
  std::uint16_t hint_;
  std::vector<Known> known_;  // in order of age, oldest first
};

}  // namespace rtrs::keyed
