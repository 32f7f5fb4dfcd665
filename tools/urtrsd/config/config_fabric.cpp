#include "core/proto/config.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

tools::FabricChoice fabric_choice(const DaemonConfig& config) {
  tools::FabricChoice choice;
  static_cast<options::FabricOptions&>(choice) = config;
  // With always_invalidate off, the fabric must not warn about a device that cannot invalidate keys.
  if (config.fabric == "verbs" && !config.always_invalidate.value_or(true)) choice.invalidation = "off";
  choice.addresses = config.listen;
  choice.connection_memory = std::uint64_t{config.connection_memory_mb} << 20U;
  choice.undelivered_timeout = dead_peer_time(config.protocol.heartbeat);
  return choice;
}

std::string setting_of_another_fabric(const DaemonConfig& config) {
  tools::FabricChoice choice = fabric_choice(config);
  choice.tls = {};  // ignore TLS and shared keys, which have separate error texts
  choice.auth = {};
  return tools::foreign_option_error(choice);
}

}  // namespace rtrs::daemon
