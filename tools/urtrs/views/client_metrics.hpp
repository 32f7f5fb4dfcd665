// Metrics of the clients of this host in the text format of Prometheus.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::admin {

// `shown` is the list of replies to client.show. docs/management.md lists the names and labels, whose meaning
// never changes.
std::string client_metrics_text(const nlohmann::json& shown);

}  // namespace rtrs::admin
