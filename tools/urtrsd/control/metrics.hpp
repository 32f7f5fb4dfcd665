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
  std::optional<tcp::TcpStats> tcp;  // set only for the fabric tcp
  std::string version;
  std::string fabric;
  double uptime_s = 0;
  std::vector<tls::Expiry> expiries{};
};

// Returns the metrics page. docs/management.md lists the names and labels, whose meaning never changes.
std::string metrics_text(const MetricsInput&);

}  // namespace rtrs::daemon
