// The parameters of the plugin: key=value on nbdkit's command line.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/proto/config.hpp"
#include "core/record/recorder.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"

namespace rtrs::nbdkit {

struct Settings {
  std::vector<std::string> paths;  // as written; checked by complete()
  std::uint16_t port = 1234;
  std::string session;             // empty until complete(): tools::default_session_name()
  std::string program = "nbdkit";  // second part of the default session name
  // One: every connection gets it, and it is open from the start. Several: those are the exports. None: every
  // device of the server is one.
  std::vector<std::string> devices;
  bool only_mapped = false;  // without devices: only those that the control socket mapped are exports
  wire::rnbd::AccessMode access_mode = wire::rnbd::AccessMode::read_write;
  bool access_mode_given = false;
  bool reconnect_min_given = false;  // else reconnect_max alone lowers it
  bool read_only_asked = false;      // nbdkit -r: complete() then makes access_mode read_only
  tools::FabricChoice fabric;
  ClientConfig protocol;  // queue depth, connections, heartbeat, reconnect, queue_timeout
  Nanos connect_timeout = seconds(15);
  std::string trace;  // file; empty: none
  rtrs::trace::FileOptions trace_options;
  // File for the last records, when a path is lost by an error, on a broken invariant and on SIGUSR1; empty:
  // none but on SIGUSR1, in `directory`.
  std::string trace_dump;
  std::string control = "auto";    // control socket; "auto": one of the run-time folder; empty: none
  std::string control_group;       // that may open it; empty: that of the process
  std::string directory;           // where nbdkit was started
  std::string status;              // likewise
  std::vector<std::string> given;  // "key=value", for the trace's header

  bool one_device() const noexcept { return devices.size() == 1; }
  // How long the start goes on, at least connect_timeout, while a server refuses the session name as taken: a
  // client that vanished without a word holds its name until the server's dead-peer time is over, which is
  // assumed to be the longer one of the default and ours. 10 s more, and one more attempt.
  Nanos taken_name_timeout() const;

  // Errors are sentences that name the key.
  tl::expected<void, std::string> set(std::string_view key, std::string_view value);
  // Call once after the last set(). `who` and `random` are for the default session name. Paths of files
  // become absolute with `working_directory`, because nbdkit leaves that directory.
  tl::expected<void, std::string> complete(const std::string& who, std::uint32_t random,
                                           const std::string& working_directory);
};

// Help text of all parameters, for `nbdkit --help urtrs` and urtrs-mapd.
const char* settings_help();
// Parameters of the plugin alone; the others are options::connection_options().
std::span<const options::Option<Settings*>> plugin_options();

}  // namespace rtrs::nbdkit
