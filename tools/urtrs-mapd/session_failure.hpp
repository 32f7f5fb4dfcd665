// Explains why a session is not connected, from what its nbdkit reports.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rtrs::mapd {

struct Trouble {
  std::string why;   // human-readable reason; empty: unknown
  std::string hint;  // may be empty
};

// Parses a reply to client.show. The result is empty if a path is connected or no connection has been tried.
// Throws nlohmann::json::exception if the reply is invalid.
Trouble trouble_of(const nlohmann::json& shown);

// Returns advice for the user about the errno of a device; empty if there is none. `doing` is "mapping",
// "unmapping" or "opening again".
std::string hint_of(int error, std::string_view doing);

}  // namespace rtrs::mapd
