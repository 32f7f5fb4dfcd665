// What everything that is under way in a server waits for, and since when, as JSON. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/driver/in_flight.hpp"
#include "core/driver/server.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::daemon {

// Where a page of requests begins: a chunk of a session. "SESSION:CHUNK" in text, and "" is the begin of all.
struct DumpPlace {
  std::uint16_t session = 0;
  std::uint16_t chunk = 0;
  auto operator<=>(const DumpPlace&) const = default;
};
std::optional<DumpPlace> parse_place(const std::string& text);
std::string to_text(DumpPlace);

// `storage`: what the storage engine says of it; may be empty. `device`: as the client mapped it, for an IO.
nlohmann::json to_json(const RequestInFlight&, const ServerSessionStatus&, const std::string& device,
                       const std::string& storage, Nanos now);
// Its paths and devices; `devices` may be null.
nlohmann::json waits_of(const ServerSessionStatus&, const rnbd::ServerDevices* devices, Nanos now);

}  // namespace rtrs::daemon
