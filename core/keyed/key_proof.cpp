#include "core/keyed/key_proof.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/assert.hpp"

namespace rtrs::keyed {
namespace {

constexpr std::string_view kConReqLabel = "urtrs con_req";
constexpr std::string_view kConRspLabel = "urtrs con_rsp";
constexpr std::string_view kNonceLabel = "urtrs nonce";
constexpr std::string_view kHintLabel = "urtrs key hint";
constexpr std::string_view kIdentityLabel = "urtrs identity";

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The input of a MAC: the label, then the parts concatenated. For each label, all parts except the last have
// a fixed length, so the encoding is unambiguous.
class Message {
 public:
  explicit Message(std::string_view label) { add(bytes_of(label)); }
  Message& add(std::span<const std::byte> part) noexcept {
    RTRS_ASSERT(part.size() <= bytes_.size() - size_);
    std::copy(part.begin(), part.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += part.size();
    return *this;
  }
  std::span<const std::byte> all() const noexcept { return std::span(bytes_).first(size_); }

 private:
  std::array<std::byte, 128> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  RTRS_ASSERT(a.size() == b.size());
  // `volatile` prevents the compiler from leaving the loop early.
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<std::uint8_t>(difference | std::to_integer<std::uint8_t>(a[i] ^ b[i]));
  return difference == 0;
}

std::uint16_t hint_of(MacFunction mac, std::string_view identity) {
  const Mac digest = mac(bytes_of(kHintLabel), bytes_of(identity));
  return wire::load_le16(digest, 0);
}

PeerIdentity digest_of(MacFunction mac, std::string_view identity) {
  const Mac digest = mac(bytes_of(kIdentityLabel), bytes_of(identity));
  return {.low = wire::load_le64(digest, 0), .high = wire::load_le64(digest, 8)};
}

wire::KeyProof client_proof(MacFunction mac, const Secret& secret, const wire::KeyNonce& nonce,
                            wire::Bytes conn_req) {
  const Message message =
      Message(kConReqLabel).add(nonce).add(conn_req.first(wire::kProvenReqEnd).subspan(wire::kProvenReqAt));
  const Mac whole = mac(secret, message.all());
  wire::KeyProof proof;
  std::copy_n(whole.begin(), proof.size(), proof.begin());
  // A proof of all zeros means "no proof".
  if (proof == wire::KeyProof{}) proof.front() = std::byte{1};
  return proof;
}

wire::ServerKeyProof server_proof(MacFunction mac, const Secret& secret, const wire::KeyNonce& nonce,
                                  wire::Bytes conn_req, wire::Bytes conn_rsp) {
  const Message message = Message(kConRspLabel)
                              .add(nonce)
                              .add(conn_req.first(wire::kConnReqBytes).subspan(wire::kProvenReqAt))
                              .add(conn_rsp.first(wire::kProvenRspBytes));
  return mac(secret, message.all());
}

KeyTable::KeyTable(MacFunction mac, const std::vector<SharedKey>& keys) {
  for (const SharedKey& key : keys) keys_.emplace(hint_of(mac, key.identity), key);
}

wire::KeyNonce Gate::nonce_of(std::uint64_t epoch, wire::Bytes conn_req, std::uint32_t host) const {
  std::array<std::byte, 12> when_and_who{};
  wire::store_le64(when_and_who, 0, epoch);
  wire::store_le32(when_and_who, 8, host);
  const auto request = wire::parse_conn_req(conn_req).value;
  const Message message = Message(kNonceLabel)
                              .add(when_and_who)
                              .add(std::as_bytes(std::span(request.sess_uuid.bytes)))
                              .add(std::as_bytes(std::span(request.paths_uuid.bytes)));
  const Mac whole = mac_(secret_, message.all());
  wire::KeyNonce nonce{};
  wire::store_le64(nonce, 0, epoch);
  std::copy_n(whole.begin(), 8, nonce.begin() + 8);
  return nonce;
}

bool Gate::was_seen(const wire::KeyProof& proof) const noexcept {
  return std::any_of(seen_.begin(), seen_.end(), [&](const Seen& one) { return one.proof == proof; });
}

void Gate::advance(Nanos now) {
  // Epochs start above 0, so that the first one has predecessors.
  epoch_ = std::max(epoch_, now / kEpoch + kValidEpochs);
  first_valid_epoch_ = std::max(first_valid_epoch_, epoch_ - (kValidEpochs - 1));
  std::erase_if(seen_, [this](const Seen& one) { return one.epoch < first_valid_epoch_; });
}

Gate::Verdict Gate::judge(Nanos now, wire::Bytes conn_req, std::uint32_t host, const KeyTable& keys,
                          Mode mode) {
  Verdict verdict;
  if (mode == Mode::off) return verdict;
  const auto offer = wire::key_offer(conn_req);
  if (!offer) {
    if (mode == Mode::require) verdict.refusal = Reason::key_refused;
    if (mode == Mode::require) verdict.lack = MissingPart::offer;
    return verdict;
  }
  advance(now);
  verdict.challenges = true;
  verdict.refusal = offer->has_proof() ? Reason::key_refused : Reason::challenged;
  verdict.nonce = nonce_of(epoch_, conn_req, host);
  if (!offer->has_proof()) return verdict;
  const auto [first, last] = keys.of(offer->hint);
  verdict.lack = first == last ? MissingPart::identity : MissingPart::key;
  if (first != last) verdict.named = &first->second.identity;
  for (std::uint64_t epoch = epoch_; first != last && epoch >= first_valid_epoch_; --epoch) {
    const wire::KeyNonce nonce = epoch == epoch_ ? verdict.nonce : nonce_of(epoch, conn_req, host);
    for (auto at = first; at != last; ++at) {
      if (!same_bytes(client_proof(mac_, at->second.secret, nonce, conn_req), offer->proof)) continue;
      if (was_seen(offer->proof)) {
        verdict.lack = MissingPart::freshness;
        verdict.named = &at->second.identity;
        return verdict;
      }
      if (seen_.size() == kMaxSeen) {
        // A proof is never forgotten while its nonce is valid. If the list is full, all nonces are
        // invalidated instead.
        first_valid_epoch_ = ++epoch_;
        seen_.clear();
        verdict.refusal = Reason::challenged;
        verdict.lack = MissingPart::nothing;
        verdict.named = nullptr;
        verdict.nonce = nonce_of(epoch_, conn_req, host);
        return verdict;
      }
      seen_.push_back({epoch, offer->proof});
      Verdict good;
      good.key = &at->second;
      good.nonce = nonce;
      return good;
    }
  }
  return verdict;
}

const wire::KeyNonce* Prover::nonce_for(Nanos now, wire::Bytes conn_req) const noexcept {
  const wire::Uuid path = wire::parse_conn_req(conn_req).value.sess_uuid;
  for (const Known& one : known_)
    if (one.path == path && now < later(one.since, kNonceUse)) return &one.nonce;
  return nullptr;
}

void Prover::remember(Nanos now, wire::Bytes conn_req, const wire::KeyNonce& nonce) noexcept {
  const wire::Uuid path = wire::parse_conn_req(conn_req).value.sess_uuid;
  std::erase_if(known_, [&](const Known& one) { return one.path == path; });
  if (known_.size() == kMaxNonces) known_.erase(known_.begin());
  known_.push_back({path, nonce, now});
}

void Prover::prove(wire::MutableBytes conn_req, const wire::KeyNonce* nonce) const {
  wire::KeyOffer offer;
  offer.hint = hint_;
  wire::put_key_offer(conn_req, offer);
  if (nonce == nullptr) return;
  offer.proof = client_proof(mac_, key_.secret, *nonce, conn_req);
  wire::put_key_offer(conn_req, offer);
}

bool Prover::accepts(const wire::KeyNonce& nonce, wire::Bytes conn_req, wire::Bytes conn_rsp) const {
  const auto shown = wire::server_key_proof(conn_rsp);
  return shown && same_bytes(server_proof(mac_, key_.secret, nonce, conn_req, conn_rsp), *shown);
}

}  // namespace rtrs::keyed
