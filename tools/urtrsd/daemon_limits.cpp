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
  const std::uint32_t of_host =
      config_.max_host_sessions != 0 ? config_.max_host_sessions : host_sessions_of(config_.max_sessions);
  const std::uint32_t half_open =
      config_.max_half_open != 0 ? config_.max_half_open : half_open_of(config_.max_sessions);
  std::vector<LimitInUse> all{{"paths", kMaxPaths, paths},
                              {"connections", kMaxCons, connections},
                              {"requests", config_.sess_queue_depth, requests},
                              {"request_bytes", config_.max_chunk_size, std::nullopt},
                              {"devices", rnbd::kMaxServerDevices, most_of(devices)},
                              {"sessions", config_.max_sessions, shown.sessions.size()},
                              {"host_sessions", of_host, most_of(of_hosts)},
                              {"half_open", half_open, std::nullopt},
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
