// Keys that clients share with the server, and a stranger who has none.
#include "core/base/assert.hpp"
#include "core/keyed/toy_mac.hpp"
#include "sim/cluster/world.hpp"
#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

namespace {

keyed::Secret secret_of(std::uint64_t number) noexcept {
  keyed::Secret secret;
  for (std::size_t at = 0; at < secret.size(); ++at) {
    if (at % 8 == 0) number = mix(number);
    secret[at] = static_cast<std::byte>(number >> (at % 8 * 8));
  }
  return secret;
}

}  // namespace

// Each client has one for all of its lives.
keyed::SharedKey World::shared_key(std::uint32_t client) const {
  return {"client" + std::to_string(client), secret_of(options_.seed ^ 0x6b6579 ^ client)};
}

// Its former life has given back what it had.
void World::ask_for_keys(Fabric& outlet) {
  RTRS_ASSERT(server_.keyed == nullptr);
  server_.gate = std::make_unique<GateWatch>(outlet, judge_, server_.clock);
  server_.keyed = std::make_unique<keyed::KeyedFabric>(*server_.gate);
  std::vector<keyed::SharedKey> keys;
  for (std::uint32_t client = 0; client < clients_.size(); ++client) keys.push_back(shared_key(client));
  const keyed::Secret secret = secret_of(options_.seed ^ 0x67617465 ^ std::uint64_t{server_.starts} << 32);
  server_.keyed->ask(keyed::toy_mac, secret, keys, keyed::Mode::require);
}

void World::prove_key(ClientNode& client, Fabric& outlet) {
  RTRS_ASSERT(client.keyed == nullptr);
  client.keyed = std::make_unique<keyed::KeyedFabric>(outlet);
  client.keyed->prove(keyed::toy_mac, shared_key(client.id - 1));
}

// He calls himself as a client does, and has another key.
void World::give_stranger_a_wrong_key() {
  auto keyed = std::make_unique<keyed::KeyedFabric>(std::move(stranger_.sim));
  keyed->prove(keyed::toy_mac, {shared_key(0).identity, secret_of(options_.seed ^ 0x6e6f6e65)});
  stranger_.sim = std::move(keyed);
}

// What he heard from a client, as it was.
bool World::play_again(std::span<std::byte> request) {
  if (server_.gate == nullptr) return false;
  const std::vector<std::byte>& heard = server_.gate->heard_by(stranger_.id + 1);
  if (heard.size() != request.size() || stranger_.requests % 5 != 4) return false;
  std::copy(heard.begin(), heard.end(), request.begin());
  judge_.mark(Mark::replayed);
  return true;
}

}  // namespace rtrs::sim
