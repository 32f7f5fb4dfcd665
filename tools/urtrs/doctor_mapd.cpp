#include "tools/urtrs/doctor_mapd.hpp"

#include <fmt/format.h>

namespace rtrs::admin {

using Grade = Finding::Grade;

void look_at_mapd(const Host& host, std::vector<Finding>& to) {
  const std::vector<MapdFacts> running = host.mapds();
  if (running.empty() && !host.program("urtrs-mapd").empty())
    to.push_back({"urtrs-mapd", Grade::warn, "none runs that this user can ask; needed for \"urtrs map\"",
                  "systemctl start urtrs-mapd"});
  for (const MapdFacts& one : running) {
    if (!one.problem.empty()) {
      to.push_back({"urtrs-mapd", Grade::fail, fmt::format("{} cannot be asked: {}", one.socket, one.problem),
                    "look into its log: journalctl -u urtrs-mapd"});
      continue;
    }
    to.push_back({"urtrs-mapd", Grade::ok,
                  one.devices == 1 ? "1 device" : fmt::format("{} devices", one.devices), ""});
    for (const std::string& device : one.unmapped)
      to.push_back({"mapped devices", Grade::warn, fmt::format("{} is not there", device),
                    fmt::format("urtrs mapping show {} says why", device)});
  }
}

}  // namespace rtrs::admin
