#include "core/proto/config.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

tools::FabricChoice fabric_choice(const DaemonConfig& config) {
  tools::FabricChoice choice;
  choice.fabric = config.fabric;
  choice.provider = config.provider;
  choice.crc = config.crc;
  choice.device = config.rdma_device;
  choice.retry_count = config.rdma_retry_count;
  // If rkeys are never invalidated, a device without invalidation deserves no warning.
  const bool unused = config.fabric == "verbs" && !config.always_invalidate.value_or(true);
  choice.invalidation = unused ? "off" : config.rdma_invalidation;
  choice.addresses = config.listen;
  choice.ack_timeout = config.rdma_ack_timeout;
  choice.tos = config.rdma_tos;
  choice.relaxed_ordering = config.rdma_relaxed_ordering;
  choice.thread_domains = config.rdma_thread_domains;
  choice.post = config.rdma_post;
  choice.tls = tls_of(config);
  choice.auth = auth_of(config);
  choice.connection_memory = std::uint64_t{config.connection_memory_mb} << 20U;
  choice.undelivered_timeout =
      dead_peer_time({milliseconds(config.heartbeat_interval_ms), config.heartbeat_missed_max});
  return choice;
}

std::string setting_of_another_fabric(const DaemonConfig& config) {
  tools::FabricChoice choice = fabric_choice(config);
  choice.tls = {};  // TLS and keys have their own error texts
  choice.auth = {};
  return tools::foreign_option_error(choice);
}

}  // namespace rtrs::daemon
