// Reason why a session is not connected, as reported by its nbdkit.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rtrs::mapd {

struct Trouble {
  std::string why;   // sentence; empty: unknown
  std::string hint;  // may be empty
};

// Parses a reply of client.show. Empty if a path is connected or none has been tried. Throws
// nlohmann::json::exception.
Trouble trouble_of(const nlohmann::json& shown);

// Advice for the user about an errno of a device. `doing`: "mapping", "unmapping" or "opening again". Empty
// if there is no advice.
std::string hint_of(int error, std::string_view doing);

}  // namespace rtrs::mapd
