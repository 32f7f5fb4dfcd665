#include "tools/urtrs-mapd/session_report.hpp"

namespace rtrs::mapd {

Shown devices_in(const nlohmann::json& shown) {
  Shown found;
  for (const nlohmann::json& device : shown.at("devices")) {
    const std::string name = device.at("mapping_path");
    const std::string state = device.at("state");
    if (device.at("kept").get<bool>() && state != "idle" && state != "unmapping") found.kept.push_back(name);
    if (const auto mode = mapping::parse_mode(device.value("access_mode", ""))) found.modes[name] = {*mode};
    found.devices[name] = {device.at("size_bytes"), device.at("users"),
                           state == "closed" ? device.value("errno", 0) : 0};
  }
  for (const nlohmann::json& session : shown.at("sessions"))
    for (const nlohmann::json& path : session.at("paths"))
      if (path.contains("address")) found.paths.push_back(path.at("address"));
  return found;
}

}  // namespace rtrs::mapd
