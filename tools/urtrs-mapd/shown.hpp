// What the process of a session says of its devices.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/control/mapping/wishes.hpp"

namespace rtrs::mapd {

struct SeenDevice {
  std::uint64_t size_bytes = 0;
  std::uint64_t users = 0;
  int refused = 0;  // errno: the server let it be opened once, and does so no more
};

struct Shown {
  std::vector<std::string> kept;  // that stay open without users
  std::map<std::string, mapping::DeviceWish> modes;
  std::map<std::string, SeenDevice> devices;
  std::vector<std::string> paths;  // "[SRC@]DST"
};

// Of an answer to "client.show"; throws nlohmann::json::exception where it is none.
Shown devices_in(const nlohmann::json& shown);

}  // namespace rtrs::mapd
