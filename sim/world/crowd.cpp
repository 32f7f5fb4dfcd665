#include "sim/world/crowd.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/keyed/toy_mac.hpp"
#include "core/wire/messages.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"
#include "sim/oracles/digest.hpp"
#include "sim/world/shared_keys.hpp"

namespace rtrs::sim {

void Crowd::begin(Nanos until) {
  if (stranger_.sim == nullptr) {
    stranger_.id = network_.add_node();
    stranger_.sim = network_.open(stranger_.id, choice_);
    stranger_.bare = stranger_.sim.get();
    if (scenario_.keys) use_wrong_key();
  }
  stranger_.until = std::max(stranger_.until, until);
  stranger_.next = now();
}

Nanos Crowd::next_time() const noexcept {
  if (stranger_.sim == nullptr) return kNever;
  if (network_.has_events(stranger_.id)) return now();
  if (!stranger_.open.empty()) return std::max(now(), std::min(stranger_.next, stranger_.until));
  return stranger_.next;
}

void Crowd::due() {
  Stranger& stranger = stranger_;
  if (stranger.sim == nullptr) return;
  std::array<FabricEvent, 16> events;
  const std::size_t count = stranger.sim->poll(now(), events);
  for (const FabricEvent& event : std::span(events).first(count)) {
    const bool over = std::holds_alternative<event::ConnectFailed>(event) ||
                      std::holds_alternative<event::ConnectionLost>(event);
    if (over && std::erase(stranger.open, *key_of(event)) != 0) stranger.sim->disconnect(*key_of(event));
  }
  if (now() >= stranger.until) {
    stranger.next = kNever;
    for (const ConKey& key : stranger.open) stranger.sim->disconnect(key);
    stranger.open.clear();
  } else if (stranger.next <= now()) {
    send_stray_request();
    stranger.next = now() + 1 + draw_time(choice_, scenario_.interval / 10, Label::crowd);
  }
}

void Crowd::send_stray_request() {
  wire::ConnReq request;
  request.cid_num = static_cast<std::uint16_t>(2 + choice_.draw(3, Label::crowd));
  request.recon_cnt = 1;
  request.first_conn = true;
  const std::uint64_t number = mix(cluster_.options.seed ^ ++stranger_.requests);
  for (std::size_t at = 0; at < request.sess_uuid.bytes.size(); ++at) {
    const auto byte = static_cast<std::uint8_t>(number >> (at % 8 * 8));
    request.sess_uuid.bytes[at] = static_cast<std::uint8_t>(byte ^ at);
    request.paths_uuid.bytes[at] = static_cast<std::uint8_t>(byte + at);
  }
  // Every third request impersonates another connection, or a newer attempt, of a path whose request was
  // overheard.
  const auto overheard =
      server_.fabric == nullptr ? std::nullopt : server_.fabric->overheard_by(stranger_.id + 1);
  if (overheard && stranger_.requests % 3 == 0) {
    request = *overheard;
    request.cid = 0;
    request.recon_cnt = static_cast<std::uint16_t>(request.recon_cnt + 1);
    request.first_conn = false;
    // The request must differ from every request that a client sends, because the trace tools find the two
    // ends of a connection by its connect request's bytes.
    request.cid_num = static_cast<std::uint16_t>(request.cid_num > 2 ? request.cid_num - 1 : 3);
    judge_.mark(Mark::impostor);
  }
  std::array<std::byte, wire::kConnReqBytes> bytes;
  const std::size_t length = wire::encode(request, bytes);
  RTRS_ASSERT(length == bytes.size());
  // If the server requires keys, the attacker has no key, has a wrong key, or replays a client's request.
  const bool bare = replay_client_request(bytes) || stranger_.requests % 2 == 0;
  const ConKey key{0, 0, stranger_.requests};
  const PathAddress address{to_text(PortAddress{stranger_.id, 0}), to_text(PortAddress{0, 0}), 1234};
  stranger_.open.push_back(key);
  (bare ? *stranger_.bare : *stranger_.sim).connect(key, address, ConnectionParams{4, 4}, bytes);
}

// Proves a client's identity with a different key.
void Crowd::use_wrong_key() {
  auto keyed = std::make_unique<keyed::KeyedFabric>(std::move(stranger_.sim));
  keyed->prove(keyed::toy_mac, {shared_key(cluster_.options.seed, 0).identity,
                                secret_of(cluster_.options.seed ^ 0x6e6f6e65)});
  stranger_.sim = std::move(keyed);
}

// Overwrites `request` with a recorded request of a client. Returns false if none is replayed.
bool Crowd::replay_client_request(std::span<std::byte> request) {
  if (server_.gate == nullptr) return false;
  const std::vector<std::byte>& heard = server_.gate->heard_by(stranger_.id + 1);
  if (heard.size() != request.size() || stranger_.requests % 5 != 4) return false;
  std::copy(heard.begin(), heard.end(), request.begin());
  judge_.mark(Mark::replayed);
  return true;
}

}  // namespace rtrs::sim
