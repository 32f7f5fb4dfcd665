// Metrics of the clients of this host in the text format of Prometheus.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::admin {

// `shown`: list of replies to client.show. docs/management.md lists names and labels. Their meaning never
// changes.
std::string client_metrics_text(const nlohmann::json& shown);

}  // namespace rtrs::admin
