// Converts everything pending in a server to JSON: what each item waits for, and since when. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/driver/in_flight.hpp"
#include "core/driver/server.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::daemon {

// Position of the first request of a page: its session and chunk. The text form is "SESSION:CHUNK"; ""
// selects the first page.
struct DumpPlace {
  std::uint16_t session = 0;
  std::uint16_t chunk = 0;
  auto operator<=>(const DumpPlace&) const = default;
};
std::optional<DumpPlace> parse_place(const std::string& text);
std::string to_text(DumpPlace);

// `storage` describes the state of the request in the storage engine and may be empty. `device` is the name
// under which the client mapped the device of an IO.
nlohmann::json to_json(const RequestInFlight&, const ServerSessionStatus&, const std::string& device,
                       const std::string& storage, Nanos now);
// Returns what the paths and devices of a session wait for; `devices` may be null.
nlohmann::json waits_of(const ServerSessionStatus&, const rnbd::ServerDevices* devices, Nanos now);

}  // namespace rtrs::daemon
