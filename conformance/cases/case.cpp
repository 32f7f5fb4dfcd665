#include "conformance/cases/case.hpp"

#include <algorithm>
#include <array>

#include "conformance/cases/cves.hpp"

namespace rtrs::conformance {

const char* to_string(Level level) noexcept {
  switch (level) {
    case Level::must:
      return "must";
    case Level::should:
      return "should";
    case Level::quirk:
      return "quirk";
  }
  return "unknown";
}

const char* to_string(Role role) noexcept {
  return role == Role::server ? "server" : "client";
}

std::vector<const Case*> cases(Role role) {
  const std::array parts{connect_cases(),    reconnect_cases(),        info_cases(),
                         request_cases(),    bad_request_cases(),      cve_cases(),
                         heartbeat_cases(),  rnbd_message_cases(),     rnbd_io_cases(),
                         rnbd_write_cases(), client_handshake_cases(), client_traffic_cases()};
  std::vector<const Case*> all;
  for (const auto& part : parts) {
    for (const Case& one : part)
      if (one.role() == role) all.push_back(&one);
  }
  std::sort(all.begin(), all.end(), [](const Case* a, const Case* b) { return a->number() < b->number(); });
  return all;
}

}  // namespace rtrs::conformance
