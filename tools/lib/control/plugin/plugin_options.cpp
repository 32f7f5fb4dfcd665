#include <array>

#include "tools/lib/control/client/client_control.hpp"
#include "tools/lib/control/plugin/settings.hpp"
#include "tools/lib/text/help_text.hpp"

namespace rtrs::plugin {
namespace {

using options::Rule;
using S = Settings* const&;
using V = const options::Value&;
using Option = options::Option<Settings*>;

constexpr std::size_t kColumn = 25;  // column in which the help texts begin

constexpr Rule kAddress = options::text("[SRC@]DST[:PORT]");

wire::rnbd::AccessMode access_mode_of(std::string_view word) {
  using wire::rnbd::AccessMode;
  return word == "ro" ? AccessMode::read_only : word == "rw" ? AccessMode::read_write : AccessMode::migration;
}

constexpr std::array kTable{
    Option{{"path", kAddress, "",
            "(required, repeatable) address of the server and, optionally, the local address. A PORT here "
            "takes precedence over port=. IPv6 with a port: [fd00::2]:PORT"},
           [](S s, V v) { s->paths.emplace_back(v.text); }},
    Option{
        {"device", options::text("NAME"), "",
         "(repeatable) device as the server exports it. One: every client gets this device whatever export "
         "it names, and nbdkit starts once it is open. Several: each is the export of its name and opens on "
         "first use. None: every device of the server is an export; it opens for its first client and closes "
         "2 to "
         "3 s after the last. Clients can list only devices given here, because RNBD cannot list a server's "
         "devices. After a resize, new clients see the new size once the device was opened again"},
        [](S s, V v) { s->devices.emplace_back(v.text); }},
    Option{{"exports", options::words("all|mapped"), "all",
            "without device=: export every device of the server, or only those mapped through the control "
            "socket, in the mode they were mapped with"},
           [](S s, V v) { s->only_mapped = v.text == "mapped"; }},
    Option{options::kServerPort, [](S s) { return &s->port; }},
    Option{{"session", options::text("NAME"), "",
            "name of this client at the server; by default IDENTITY-nbdkit-RANDOM, a new one at each start, "
            "with the host name as IDENTITY if there is no key. If a client vanishes, its name is free after "
            "the dead-peer time of the server (35 s)"},
           [](S s) { return &s->session; }},
    Option{{"access_mode", options::words("ro|rw|migration"), "rw",
            "ro with nbdkit -r. Without access_mode=, and unless exactly one device= is given, a "
            "write-protected "
            "device opens ro"},
           [](S s, V v) { s->access_mode = access_mode_of(v.text); }},
    Option{{"connect_timeout", options::time(), "15s",
            "how long to try at the start. If the server rejects the session name because it is in use, at "
            "least the dead-peer time + 10 s + reconnect_max (75 s)"},
           [](S s) { return &s->connect_timeout; }},
    Option{
        {"status", options::file(), "",
         "keep the state of every path here, as JSON; an existing file must be empty or an earlier status"},
        [](S s) { return &s->status; }},
};

std::string entry(const options::Row& row) {
  std::string name = std::string(row.name) + "=" + std::string(row.rule.shape);
  name +=
      name.size() + 1 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - name.size(), ' ');
  std::string meaning(row.help);
  if (!row.initial.empty()) meaning += " (default " + std::string(row.initial) + ")";
  return name + tools::wrapped(meaning, kColumn) + "\n";
}

constexpr const char* kEnd =
    "TIME is 500ms, 30s, 2m, 1h or a number of seconds.\n"
    "\n"
    "nbdkit-urtrs path=10.0.0.1@10.0.0.2 path=10.0.1.1@10.0.1.2 device=disk.img\n"
    "nbdkit-urtrs -U - path=10.0.0.2 device=disk.img --run 'nbdcopy -p $uri disk.img'\n"
    "nbdkit-urtrs -U /run/nbd.sock path=10.0.0.2 session=web1\n"
    "    # then nbd+unix:///disk.img?socket=/run/nbd.sock";

}  // namespace

std::span<const Option> plugin_options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> both(kTable.begin(), kTable.end());
    both.insert(both.end(), options::kProcessOptions<Settings>.begin(),
                options::kProcessOptions<Settings>.end());
    return both;
  }();
  return all;
}

const char* settings_help() {
  static const std::string text = [] {
    std::string all;
    for (const Option& one : plugin_options()) all += entry(one);
    for (const auto& one : options::connection_options()) all += entry(one);
    return all + kEnd;
  }();
  return text.c_str();
}

}  // namespace rtrs::plugin
