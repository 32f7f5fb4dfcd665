// The metrics of the clients of this host, in the text format of Prometheus.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::admin {

// `shown`: a list of answers to client.show. Names and labels are in docs/management.md and never change
// their meaning.
std::string client_metrics_text(const nlohmann::json& shown);

}  // namespace rtrs::admin
