#include "core/keyed/keyed_fabric.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace rtrs::keyed {

namespace {

// Returns a text for the log. The text contains only identities that are configured here, and nothing that an
// unauthenticated client chose.
std::string words_of(const Gate::Verdict& refused) {
  switch (refused.lack) {
    case Gate::MissingPart::nothing:
      break;
    case Gate::MissingPart::offer:
      return "it offers no key";
    case Gate::MissingPart::identity:
      return "no key for the identity that the peer sent";
    case Gate::MissingPart::key:
      return "its key of " + *refused.named + " differs from the one here";
    case Gate::MissingPart::freshness:
      return "its proof of the key of " + *refused.named + " was used before";
  }
  return {};
}

}  // namespace

void KeyedFabric::prove(MacFunction mac, SharedKey key, RenewKey renew) {
  prover_mac_ = mac;
  prover_ = std::make_shared<Prover>(mac, std::move(key));
  renew_ = std::move(renew);
}

void KeyedFabric::ask(MacFunction mac, const Secret& secret, const std::vector<SharedKey>& keys, Mode mode) {
  mac_ = mac;
  gate_.emplace(mac, secret);
  replace_keys(keys, mode);
}

std::shared_ptr<const KeyTable> KeyedFabric::replace_keys(std::shared_ptr<const KeyTable> keys, Mode mode) {
  mode_ = mode;
  return std::exchange(keys_, std::move(keys));
}

void KeyedFabric::replace_keys(const std::vector<SharedKey>& keys, Mode mode) {
  replace_keys(std::make_shared<const KeyTable>(mac_, keys), mode);
}

void KeyedFabric::connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
                          std::span<const std::byte> private_data) {
  if (!prover_ || private_data.size() != sizeof(ConReq) || !wire::parse_conn_req(private_data))
    return inner_.connect(key, address, params, private_data);
  if (renew_)
    if (const auto renewed = renew_()) prover_ = std::make_shared<Prover>(prover_mac_, *renewed);
  // Reserves room, so that poll() can record a server without a valid proof and need not allocate.
  unproven_.reserve(unproven_.size() + asked_.size() + 1);
  Asked& one = asked_.emplace_back();
  one.key = key;
  one.prover = prover_;
  std::copy_n(private_data.begin(), one.request.size(), one.request.begin());
  if (const wire::KeyNonce* nonce = prover_->nonce_for(now_, one.request)) one.nonce = *nonce;
  prover_->prove(one.request, one.nonce ? &*one.nonce : nullptr);
  // Passes a copy, because the fabric may read the bytes until the call ends, and the call may end requests.
  const ConReq request = one.request;
  inner_.connect(key, address, params, request);
}

void KeyedFabric::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                         std::span<const std::byte> private_data) {
  const std::optional<Judged> judged = take_judged(request);
  if (!judged || !judged->key || private_data.size() != sizeof(ConRsp))
    return inner_.accept(request, key, params, private_data);
  ConRsp answer;
  std::copy_n(private_data.begin(), answer.size(), answer.begin());
  wire::grant_key_proof(answer);
  wire::put_server_key_proof(answer,
                             server_proof(mac_, judged->key->secret, judged->nonce, judged->con_req, answer));
  inner_.accept(request, key, params, answer);
}

void KeyedFabric::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  const std::optional<Judged> judged = take_judged(request);
  if (!judged || !judged->challenged || private_data.size() != sizeof(ConRsp))
    return inner_.reject(request, private_data);
  ConRsp answer;
  std::copy_n(private_data.begin(), answer.size(), answer.begin());
  wire::put_key_challenge(answer, judged->nonce);
  inner_.reject(request, answer);
}

std::string KeyedFabric::identity_of_request(std::uint32_t request) const {
  for (const Judged& one : judged_)
    if (one.request == request && one.key) return one.key->identity;
  return inner_.identity_of_request(request);
}

std::string KeyedFabric::refusal_of_request(std::uint32_t request) const {
  for (const Judged& one : judged_)
    if (one.request == request && !one.refusal.empty()) return one.refusal;
  return inner_.refusal_of_request(request);
}

std::size_t KeyedFabric::poll(Nanos now, std::span<FabricEvent> events) noexcept {
  now_ = now;
  shown_count_ = 0;
  const std::size_t count = inner_.poll(now, events);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count; ++at) {
    if (!passes(now, events[at])) continue;
    if (kept != at) events[kept] = events[at];
    ++kept;
  }
  return kept;
}

bool KeyedFabric::passes(Nanos now, FabricEvent& event) {
  if (auto* const requested = std::get_if<event::ConnectRequested>(&event)) {
    judge(now, *requested);
    return true;
  }
  if (const auto* const connected = std::get_if<event::Connected>(&event)) {
    open_answer(now, event, *connected);
    return true;
  }
  if (auto* const failed = std::get_if<event::ConnectFailed>(&event)) {
    open_answer(now, *failed);
    return true;
  }
  if (const auto* const closed = std::get_if<event::ConnectionClosed>(&event)) {
    take_asked(closed->key);
    std::erase(unproven_, closed->key);
    return true;
  }
  if (unproven_.empty()) return true;
  return std::none_of(unproven_.begin(), unproven_.end(),
                      [&](const ConKey& key) { return event::is_of(event, key); });
}

void KeyedFabric::judge(Nanos now, event::ConnectRequested& event) {
  // Ignores a message that does not parse: the user of this fabric rejects it.
  if (!gate_ || !wire::parse_conn_req(event.private_data)) return;
  try {
    const Gate::Verdict verdict = gate_->judge(now, event.private_data, event.host, *keys_, mode_);
    event.refusal = verdict.refusal;
    Judged one;
    one.request = event.request;
    one.challenged = verdict.challenges;
    one.nonce = verdict.nonce;
    std::copy_n(event.private_data.begin(), one.con_req.size(), one.con_req.begin());
    if (verdict.key != nullptr) {
      one.key = *verdict.key;
      event.identity = digest_of(mac_, verdict.key->identity);
    }
    if (verdict.refusal == Reason::key_refused) one.refusal = words_of(verdict);
    if (one.challenged || one.key || !one.refusal.empty()) judged_.push_back(std::move(one));
    if (!wire::key_offer(event.private_data)) return;
    const std::span<std::byte> plain = shown(event.private_data);
    wire::clear_key_offer(plain);
    event.private_data = plain;
  } catch (const std::bad_alloc&) {
    event.refusal = Reason::no_resources;
  }
}

void KeyedFabric::open_answer(Nanos, FabricEvent& event, const event::Connected& connected) {
  const std::optional<Asked> asked = take_asked(connected.key);
  if (!prover_) return;
  const ConKey key = connected.key;
  Reason reason = Reason::key_refused;
  // A server can only prove the key in response to a client proof.
  if (asked && asked->nonce &&
      asked->prover->accepts(*asked->nonce, asked->request, connected.private_data)) {
    try {
      const std::span<std::byte> plain = shown(connected.private_data);
      wire::clear_key_answer(plain);
      event = event::Connected{key, plain};
      return;
    } catch (const std::bad_alloc&) {
      reason = Reason::no_resources;
    }
  }
  unproven_.push_back(key);
  event = event::ConnectFailed{key, reason, {}};
}

void KeyedFabric::open_answer(Nanos now, event::ConnectFailed& failed) {
  const std::optional<Asked> asked = take_asked(failed.key);
  if (!asked || failed.reason != Reason::rejected) return;
  const auto nonce = wire::key_challenge(failed.private_data);
  if (!nonce) return;
  // A reject with the same nonce means that the proof was sent and not accepted.
  failed.reason = asked->nonce == nonce ? Reason::key_refused : Reason::challenged;
  prover_->remember(now, asked->request, *nonce);
  try {
    const std::span<std::byte> plain = shown(failed.private_data);
    wire::clear_key_answer(plain);
    failed.private_data = plain;
  } catch (const std::bad_alloc&) {
    failed.private_data = {};
  }
}

std::optional<KeyedFabric::Asked> KeyedFabric::take_asked(const ConKey& key) {
  const auto at =
      std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) { return one.key == key; });
  if (at == asked_.end()) return std::nullopt;
  Asked one = std::move(*at);
  asked_.erase(at);
  return one;
}

std::optional<KeyedFabric::Judged> KeyedFabric::take_judged(std::uint32_t request) {
  const auto at =
      std::find_if(judged_.begin(), judged_.end(), [&](const Judged& one) { return one.request == request; });
  if (at == judged_.end()) return std::nullopt;
  Judged one = std::move(*at);
  judged_.erase(at);
  return one;
}

// Returns a mutable copy of the start of a message, which must be long enough.
std::span<std::byte> KeyedFabric::shown(std::span<const std::byte> message) {
  if (shown_count_ == shown_.size()) shown_.emplace_back();
  ConReq& copy = shown_[shown_count_++];
  std::copy_n(message.begin(), copy.size(), copy.begin());
  return copy;
}

}  // namespace rtrs::keyed
