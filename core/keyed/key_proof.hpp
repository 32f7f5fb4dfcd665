// Proofs of a shared key in the connect exchange (protocol section 12): what a client sends, and what a
// server makes of it. Decisions alone: time, chance and the MAC come in from outside. No key leaves these
// values.
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
// A message authentication code of 32 bytes: HMAC-SHA256 in programs.
using MacFunction = Mac (*)(std::span<const std::byte> key, std::span<const std::byte> message) noexcept;

struct SharedKey {
  std::string identity;  // 1 to 128 of A-Z a-z 0-9 . _ : @ -
  Secret secret{};
};

// In a time that does not depend on where they differ. Of equal length.
[[nodiscard]] bool same_bytes(std::span<const std::byte>, std::span<const std::byte>) noexcept;

// What CON_REQ has of an identity, so that a server with many keys tries few.
[[nodiscard]] std::uint16_t hint_of(MacFunction, std::string_view identity);
// The same for the same name alone.
[[nodiscard]] PeerIdentity digest_of(MacFunction, std::string_view identity);

// Over the front of a CON_REQ.
[[nodiscard]] wire::KeyProof client_proof(MacFunction, const Secret&, const wire::KeyNonce&,
                                          wire::Bytes conn_req);
// Over the CON_REQ and the front of its accept, in which the flag is set.
[[nodiscard]] wire::ServerKeyProof server_proof(MacFunction, const Secret&, const wire::KeyNonce&,
                                                wire::Bytes conn_req, wire::Bytes conn_rsp);

// The keys of a server, by their hints.
class KeyTable {
 public:
  KeyTable(MacFunction, const std::vector<SharedKey>&);
  using Range = std::multimap<std::uint16_t, SharedKey>::const_iterator;
  [[nodiscard]] std::pair<Range, Range> of(std::uint16_t hint) const { return keys_.equal_range(hint); }

 private:
  std::multimap<std::uint16_t, SharedKey> keys_;
};

// off: nobody is asked. allow: who does not offer a proof, as a kernel client, comes in without identity.
enum class Mode : std::uint8_t { off, allow, require };

// The server. What it gives to strangers needs no memory: a nonce says when it was made, and a MAC that it
// was.
class Gate {
 public:
  static constexpr Nanos kEpoch = seconds(10);
  static constexpr std::uint64_t kGoodEpochs = 3;  // a nonce is good for 20 to 30 s
  static constexpr std::size_t kMaxSeen = 4096;

  // `secret`: of this server alone, for as long as it runs.
  Gate(MacFunction mac, const Secret& secret) : mac_(mac), secret_(secret) { seen_.reserve(kMaxSeen); }

  // What a request has not that is refused with key_refused.
  enum class Lack : std::uint8_t { nothing, offer, identity, key, freshness };
  struct Verdict {
    Reason refusal = Reason::none;
    Lack lack = Lack::nothing;
    const std::string* named = nullptr;  // lacks key or freshness: whose key it would be
    bool challenges = false;             // the refusal has `nonce` with it
    const SharedKey* key = nullptr;      // whose proof is good, under `nonce`
    wire::KeyNonce nonce{};
  };
  // `conn_req` parses, and `host` is the digest of the client's address. A good proof is good once.
  [[nodiscard]] Verdict judge(Nanos now, wire::Bytes conn_req, std::uint32_t host, const KeyTable&, Mode);
  // Proofs that are remembered.
  [[nodiscard]] std::size_t seen() const noexcept { return seen_.size(); }

 private:
  struct Seen {
    std::uint64_t epoch = 0;
    wire::KeyProof proof{};
  };
  wire::KeyNonce nonce_of(std::uint64_t epoch, wire::Bytes conn_req, std::uint32_t host) const;
  bool was_seen(const wire::KeyProof&) const noexcept;
  // Proofs of epochs that are over need not be remembered.
  void advance(Nanos now);

  MacFunction mac_;
  Secret secret_;
  std::uint64_t epoch_ = 0;
  std::uint64_t first_good_ = 0;  // epoch
  std::vector<Seen> seen_;
};

// The client.
class Prover {
 public:
  // It does not offer a nonce that the server may have forgotten: below the 20 s for which one is good at
  // least.
  static constexpr Nanos kNonceUse = seconds(15);
  static constexpr std::size_t kMaxNonces = 128;

  Prover(MacFunction mac, SharedKey key)
      : mac_(mac), key_(std::move(key)), hint_(hint_of(mac, key_.identity)) {
    known_.reserve(kMaxNonces);
  }

  // The nonce of the path whose CON_REQ this is, or null.
  [[nodiscard]] const wire::KeyNonce* nonce_for(Nanos now, wire::Bytes conn_req) const noexcept;
  void remember(Nanos now, wire::Bytes conn_req, const wire::KeyNonce&) noexcept;
  // Puts offer and proof into a CON_REQ; without a nonce the offer alone.
  void prove(wire::MutableBytes conn_req, const wire::KeyNonce*) const;
  // Whether the server that accepted has the key too.
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
  std::vector<Known> known_;  // oldest first
};

}  // namespace rtrs::keyed
