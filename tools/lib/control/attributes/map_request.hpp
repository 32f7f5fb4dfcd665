// What is written to class/rnbd-client/ctl/map_device, with the grammar and the errors of Linux (protocol
// section 8.3).
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
  std::vector<PathAddress> paths;  // each with the dest_port that stood before it
  std::uint16_t port = 1234;       // the last dest_port: of paths that are added later
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
  int poll_queues = 0;  // -1: one for each processor
};

inline constexpr std::size_t kMostMapPaths = 6;

// EINVAL: an option that does not exist, lacks its value or has a wrong one, or one of sessname and
// device_path is missing; EPROTONOSUPPORT: a destination without "ip:" or "gid:"; ENOMEM: a seventh path.
// `processors`: poll queues there may be.
tl::expected<MapRequest, int> parse_map_request(std::string_view text, unsigned processors);

// Why no session can be opened for it: ENXIO without a path, EINVAL for a name that cannot be, EEXIST where a
// path is there twice; 0: it can.
int new_session_problem(const MapRequest&);

}  // namespace rtrs::attributes
