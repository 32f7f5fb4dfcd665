// Metrics of a server in the text format of Prometheus.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/platform/tls/tls.hpp"
#include "core/driver/block_server.hpp"
#include "core/tcp/tcp_options.hpp"
#include "tools/lib/control/attributes/server_tree.hpp"

namespace rtrs::daemon {

struct MetricsInput {
  attributes::ServerModel model;
  ServerStats transport;
  BlockServerStats block;
  std::optional<tcp::TcpStats> tcp;  // fabric tcp only
  std::string version;
  std::string fabric;
  double uptime_s = 0;
  std::vector<tls::Expiry> expiries{};
};

// docs/management.md lists names and labels. Their meaning never changes.
std::string metrics_text(const MetricsInput&);

}  // namespace rtrs::daemon
