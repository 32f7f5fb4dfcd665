#include <algorithm>
#include <cstring>

#include "core/driver/client.hpp"
#include "core/driver/server.hpp"

namespace rtrs {

namespace {

// Derives the seed from the random UUID. A seed that the caller set, to repeat a run, is kept.
void seed_jitter(ClientOptions& options) {
  if (options.protocol.seed != ClientConfig{}.seed) return;
  std::memcpy(&options.protocol.seed, options.session_uuid.bytes.data(), sizeof options.protocol.seed);
}

// Reduces the options that clients and servers have in common.
template <class Config>
void clamp_common(Config& config, const Capabilities& fabric) noexcept {
  config.imm_consumes_receive = fabric.imm_consumes_receive;
  config.probe_deliveries = fabric.done_means_delivered;
  if (fabric.max_send_depth != 0 && fabric.max_send_depth < config.send_depth)
    config.send_depth = static_cast<std::uint16_t>(fabric.max_send_depth);
}

}  // namespace

ServerConfig clamp_to(const ServerConfig& wanted, const Capabilities& fabric) noexcept {
  ServerConfig config = wanted;
  config.send_invalidate = wanted.send_invalidate && fabric.send_invalidate;
  clamp_common(config, fabric);
  return config;
}

ClientOptions clamp_to(const ClientOptions& wanted, const Capabilities& fabric) {
  ClientOptions options = wanted;
  ClientConfig& protocol = options.protocol;
  protocol.offer_invalidation = protocol.offer_invalidation && fabric.per_io_keys;
  clamp_common(protocol, fabric);
  // Receives for service messages. The other receives serve requests: one each, or two with invalidation.
  constexpr std::uint32_t kServiceReceives = 128;
  const std::uint32_t per_request = protocol.offer_invalidation ? 2 : 1;
  if (fabric.max_receive_depth > kServiceReceives) {
    const std::uint32_t most = (fabric.max_receive_depth - kServiceReceives) / per_request;
    if (most < protocol.max_depth) protocol.max_depth = static_cast<std::uint16_t>(most);
  }
  seed_jitter(options);
  return options;
}

}  // namespace rtrs
