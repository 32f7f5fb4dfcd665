// Parses the text written to class/rnbd-client/ctl/map_device, with the grammar and the errors of Linux
// (docs/protocol.md, section 8.3).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::attributes {

struct MapRequest {
  std::string session;
  std::string device;
  std::vector<PathAddress> paths;  // each path uses the last dest_port that precedes it in the text
  std::uint16_t port = 1234;       // last dest_port in the text, for paths added later
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
  int poll_queues = 0;  // -1: one per processor
};

inline constexpr std::size_t kMaxMapPaths = 6;

// Errors: EINVAL if an option is unknown, lacks its value or has an invalid one, or if sessname or
// device_path is missing; EPROTONOSUPPORT for a destination without "ip:" or "gid:"; ENOMEM for more than
// kMaxMapPaths paths. `processors`: largest valid number of poll queues.
tl::expected<MapRequest, int> parse_map_request(std::string_view text, unsigned processors);

// Returns the errno with which opening a new session for the request would fail: ENXIO without a path, EINVAL
// for an invalid session name, EEXIST if a path is given twice. Returns 0 if the session can be opened.
int new_session_problem(const MapRequest&);

}  // namespace rtrs::attributes
