// Parameters of the nbdkit plugin: key=value on the command line of nbdkit.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "backends/options/process.hpp"
#include "core/proto/config.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"

namespace rtrs::plugin {

struct Settings : options::ProcessOptions {
  std::vector<std::string> paths;  // paths as the user gave them; complete() checks them
  std::uint16_t port = 1234;
  std::string session;             // if empty, complete() sets it to tools::default_session_name()
  std::string program = "nbdkit";  // second part of the default session name
  // If there is one device, every NBD client gets it, and it is opened at the start. If there are several,
  // each is an export. If there is none, every device of the server is an export.
  std::vector<std::string> devices;
  bool only_mapped = false;  // if `devices` is empty: export only devices mapped through the control socket
  wire::rnbd::AccessMode access_mode = wire::rnbd::AccessMode::read_write;
  bool access_mode_given = false;
  bool reconnect_min_given = false;  // if false, a smaller reconnect_max also lowers reconnect_min
  bool read_only_asked = false;      // nbdkit -r: complete() then makes access_mode read_only
  tools::FabricChoice fabric;
  ClientConfig protocol;  // queue depth, connections, heartbeat, reconnect, queue_timeout
  Nanos connect_timeout = seconds(15);
  std::string directory;           // working directory in which nbdkit was started
  std::string status;              // status file; empty: none
  std::vector<std::string> given;  // all parameters as "key=value", for the header of the trace

  bool one_device() const noexcept { return devices.size() == 1; }
  // Time limit of the start while the server rejects the session name because it is in use. A client that
  // failed silently keeps its name until the dead-peer time of the server has passed. This time is unknown,
  // so the function assumes the default or the dead-peer time of this client, whichever is longer; 10 s and
  // one reconnect pause are added. The result is at least connect_timeout.
  Nanos name_in_use_timeout() const;

  // Sets a parameter. The error is a human-readable message that names the key.
  tl::expected<void, std::string> set(std::string_view key, std::string_view value);
  // Checks the parameters together. Call once after the last set(). `who` and `random` become parts of the
  // default session name. File names become absolute, relative to `working_directory`, because nbdkit changes
  // its directory.
  tl::expected<void, std::string> complete(const std::string& who, std::uint32_t random,
                                           const std::string& working_directory);
};

// Returns the help text of all parameters, for `nbdkit --help urtrs` and urtrs-mapd.
const char* settings_help();
// Returns the parameters that only the plugin has; the others are options::connection_options().
std::span<const options::Option<Settings*>> plugin_options();

}  // namespace rtrs::plugin
