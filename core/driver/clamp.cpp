#include <algorithm>
#include <cstring>

#include "core/driver/client.hpp"

namespace rtrs {

namespace {

// The uuid is random; a seed that somebody chose, to repeat a run, stays.
void seed_jitter(ClientOptions& options) {
  if (options.protocol.seed != ClientConfig{}.seed) return;
  std::memcpy(&options.protocol.seed, options.session_uuid.bytes.data(), sizeof options.protocol.seed);
}

}  // namespace

ClientOptions clamp_to(const ClientOptions& wanted, const Capabilities& fabric) {
  ClientOptions options = wanted;
  ClientConfig& protocol = options.protocol;
  protocol.imm_consumes_receive = fabric.imm_consumes_receive;
  protocol.offer_invalidation = protocol.offer_invalidation && fabric.per_io_keys;
  protocol.probe_deliveries = fabric.done_means_delivered;
  if (fabric.max_send_depth != 0 && fabric.max_send_depth < protocol.send_depth)
    protocol.send_depth = static_cast<std::uint16_t>(fabric.max_send_depth);
  // A request takes a receive, with invalidation two; the rest is for service messages.
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
