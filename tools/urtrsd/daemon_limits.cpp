// Reports the limits of this urtrsd and their current use.
#include <algorithm>
#include <map>
#include <string>

#include "core/tcp/tcp_options.hpp"
#include "tools/lib/control/limits/urtrsd.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {
namespace {

template <class Key>
std::uint64_t most_of(const std::map<Key, std::uint64_t>& counts) {
  std::uint64_t most = 0;
  for (const auto& [key, count] : counts) most = std::max(most, count);
  return most;
}

}  // namespace

std::vector<LimitInUse> Daemon::limits() const {
  const attributes::ServerModel shown = model();
  std::uint64_t paths = 0, connections = 0, requests = 0;
  std::map<DescriptorBudget::Host, std::uint64_t> of_hosts;
  for (const ServerSessionStatus& session : shown.sessions) {
    std::uint64_t of_session = 0;
    paths = std::max<std::uint64_t>(paths, session.paths.size());
    for (const ServerPathStatus& path : session.paths) {
      connections = std::max<std::uint64_t>(connections, path.connections);
      of_session += path.in_service;
    }
    requests = std::max(requests, of_session);
    if (session.session < sessions_.size() && sessions_[session.session] != nullptr)
      ++of_hosts[sessions_[session.session]->host];
  }
  std::map<std::string, std::uint64_t> devices;
  for (const attributes::OpenDevice& device : shown.devices)
    for (const attributes::OpenDevice::Use& use : device.uses) ++devices[use.session];
  const ServerConfig& protocol = config_.protocol;
  std::vector<LimitInUse> all{{"paths", kMaxPaths, paths},
                              {"connections", kMaxCons, connections},
                              {"requests", protocol.queue_depth, requests},
                              {"request_bytes", protocol.chunk_size, std::nullopt},
                              {"devices", rnbd::kMaxServerDevices, most_of(devices)},
                              {"sessions", protocol.max_sessions, shown.sessions.size()},
                              {"host_sessions", tools::host_sessions_of(protocol), most_of(of_hosts)},
                              {"half_open", tools::half_open_of(protocol), std::nullopt},
                              {"files", descriptors_.files_max(), descriptors_.files()},
                              {"storage_operations", engine_->depth(), engine_->in_flight()}};
  if (auto* const own = dynamic_cast<tcp::TcpFabric*>(fabric_.get())) {
    const tcp::TcpStats stats = own->stats();
    all.push_back({"connection_memory", config_.connection_memory_mb, stats.memory >> 20U});
    all.push_back({"server_connections", descriptors_.connections_max(), stats.connections});
  }
  return all;
}

}  // namespace rtrs::daemon
