// The attributes of a server under the names, and with the formats and errors, of Linux 6.12: what
// /sys/class/rtrs-server, /sys/class/rnbd-server and /sys/module have there (protocol section 8, in Linux
// rtrs-srv-sysfs.c, rtrs-srv-stats.c, rnbd-srv-sysfs.c).
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

// A device that sessions have open.
struct OpenDevice {
  std::string backing;  // what is exported: path of a file or block device, or a name for memory
  struct Use {
    std::string session;
    std::uint64_t handle = 0;  // for ServerOperations::force_close()
    wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
    std::string mapping_path;  // as the client asked for it
    std::uint64_t size_bytes = 0;
  };
  std::vector<Use> uses;
};

struct ServerParameters {
  bool always_invalidate = false;
  std::uint32_t max_chunk_size = 0;  // bytes
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

// What writing to attributes does; each 0 or a positive errno.
class ServerOperations {
 public:
  virtual ~ServerOperations() = default;
  virtual int disconnect_path(std::uint16_t session, unsigned path) = 0;
  virtual int reset_traffic(std::uint16_t session, unsigned path) = 0;
  virtual int force_close(std::uint64_t handle) = 0;
};

// The folder that stands for /sys. `operations` must outlive the tree and its nodes.
Node server_tree(std::shared_ptr<const ServerModel> model, ServerOperations& operations);

// Both ends of a path as sysfs writes them, from "10.0.0.7:40112 > [fe80::1]:1234": {"ip:10.0.0.7",
// "ip:fe80::1"}.
struct PathEnds {
  std::string source;
  std::string destination;
};
PathEnds path_ends(std::string_view described);

// The name of a file or folder that stands for `path`: '/' becomes '!', as in sysfs.
std::string entry_name(std::string_view path);

}  // namespace rtrs::attributes
