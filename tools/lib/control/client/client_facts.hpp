// All facts about the sessions, paths, devices and counters of a client, one row each.
#pragma once
#include <nlohmann/json.hpp>
#include <span>

#include "tools/lib/control/client/client_control.hpp"
#include "tools/lib/text/fact.hpp"

namespace rtrs::control {

struct ClientPathAt {
  const ClientModel& model;
  const ClientPathModel& path;
  Nanos now;
};

struct ClientDeviceAt {
  const ClientModel& model;
  const ClientDeviceModel& device;
};

std::span<const tools::Fact<ClientModel>> client_session_facts();
std::span<const tools::Fact<ClientPathAt>> client_path_facts();
std::span<const tools::Fact<ClientDeviceAt>> client_device_facts();
std::span<const tools::Fact<ClientStats>> client_stats_facts();

bool is_shown(const ClientPathModel&);

// Adds the members `reason`, `sentence`, `hint` and `errno`. `peer_errno`: errno that the server sent; 0:
// none.
void add_reason(nlohmann::json& to, Reason, std::uint16_t peer_errno, std::string_view fabric);

}  // namespace rtrs::control
