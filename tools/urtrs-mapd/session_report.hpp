// State of the devices of a session, as the process of the session reports it.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/control/mapping/desired_state.hpp"

namespace rtrs::mapd {

struct SeenDevice {
  std::uint64_t size_bytes = 0;
  std::uint64_t users = 0;
  int refused = 0;  // errno with which the server refuses to reopen the device; 0: none
};

struct Shown {
  std::vector<std::string> kept;  // devices that stay open without users
  std::map<std::string, mapping::DeviceWish> modes;
  std::map<std::string, SeenDevice> devices;
  std::vector<std::string> paths;  // "[SRC@]DST"
};

// Parses a reply to client.show. Throws nlohmann::json::exception if the reply is invalid.
Shown devices_in(const nlohmann::json& shown);

}  // namespace rtrs::mapd
