// Makes the attributes of a server with the names, formats and errors of Linux 6.12: /sys/class/rtrs-server,
// /sys/class/rnbd-server and /sys/module (docs/protocol.md, section 8; in Linux rtrs-srv-sysfs.c,
// rtrs-srv-stats.c, rnbd-srv-sysfs.c).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/driver/server.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/control/attributes/node.hpp"

namespace rtrs::attributes {

// A device that at least one session has open.
struct OpenDevice {
  std::string backing;  // path of the exported file or block device; the name of an export in memory
  struct Use {
    std::string session;
    std::uint64_t handle = 0;  // argument for ServerOperations::force_close()
    wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
    std::string mapping_path;  // name that the client requested
    std::uint64_t size_bytes = 0;
  };
  std::vector<Use> uses;
};

struct ServerParameters {
  bool always_invalidate = false;
  std::uint32_t max_chunk_size = 0;  // in bytes
  std::uint32_t sess_queue_depth = 0;
  std::uint32_t port = 0;
  std::string dev_search_path;
  HeartbeatConfig heartbeat{};
};

struct ServerModel {
  std::vector<ServerSessionStatus> sessions;
  std::vector<OpenDevice> devices;
  ServerParameters parameters;
};

// Operations that are started by writing to attributes. Each returns 0 or a positive errno.
class ServerOperations {
 public:
  virtual ~ServerOperations() = default;
  virtual int disconnect_path(std::uint16_t session, unsigned path) = 0;
  virtual int reset_traffic(std::uint16_t session, unsigned path) = 0;
  virtual int force_close(std::uint64_t handle) = 0;
};

// Returns the folder that corresponds to /sys. `operations` must outlive the tree and its nodes.
Node server_tree(std::shared_ptr<const ServerModel> model, ServerOperations& operations);

// The two addresses of a path as sysfs shows them. path_ends("10.0.0.7:40112 > [fe80::1]:1234") returns
// {"ip:10.0.0.7", "ip:fe80::1"}.
struct PathEnds {
  std::string source;
  std::string destination;
};
PathEnds path_ends(std::string_view described);

// Converts `path` to the name of a file or folder: '/' becomes '!', as in sysfs.
std::string entry_name(std::string_view path);

}  // namespace rtrs::attributes
