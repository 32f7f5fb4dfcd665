// JSON about everything pending in a server: what it waits for, and since when. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/driver/in_flight.hpp"
#include "core/driver/server.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::daemon {

// First request of a page, given by its session and chunk. Its text form is "SESSION:CHUNK"; "" is the first
// page.
struct DumpPlace {
  std::uint16_t session = 0;
  std::uint16_t chunk = 0;
  auto operator<=>(const DumpPlace&) const = default;
};
std::optional<DumpPlace> parse_place(const std::string& text);
std::string to_text(DumpPlace);

// `storage`: state in the storage engine; may be empty. `device`: for an IO, the name under which the client
// mapped the device.
nlohmann::json to_json(const RequestInFlight&, const ServerSessionStatus&, const std::string& device,
                       const std::string& storage, Nanos now);
// Paths and devices of a session; `devices` may be null.
nlohmann::json waits_of(const ServerSessionStatus&, const rnbd::ServerDevices* devices, Nanos now);

}  // namespace rtrs::daemon
