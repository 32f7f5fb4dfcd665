#include "tools/urtrs/command/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/lib/text/help_text.hpp"
#include "tools/urtrs/doctor/rdma_lines.hpp"
#include "tools/urtrs/views/client_views.hpp"
#include "tools/urtrs/views/keys.hpp"
#include "tools/urtrs/views/limit_table.hpp"
#include "tools/urtrs/views/mappings.hpp"
#include "tools/urtrs/views/top.hpp"
#include "tools/urtrs/views/views.hpp"
#include "tools/urtrs/views/watch.hpp"

namespace rtrs::admin {

namespace {

using Words = std::vector<std::string>;

// Further help text for a command, and examples.
struct Detail {
  const char* noun;
  const char* verb;
  const char* more;
  Words examples;
};

std::vector<Detail> of_clients() {
  return {{"client session",
           "list",
           "Below each session are its paths.",
           {"client session list", "client session list all --csv"}},
          {"client session", "show", "", {"client session show web1"}},
          {"client session",
           "policy",
           "POLICY: rr takes each path in turn, mi the path with the fewest requests, ml the path with the "
           "fastest heartbeat (a path without a measurement comes last). The policy holds until the process "
           "ends; policy= of the plugin sets the initial one.",
           {"client session policy web1 min-latency", "client session policy web1 rr"}},
          {"client session", "recover", "", {"client session recover web1"}},
          {"client path", "list", "", {"client path list web1 +rtt_us +attempt +next_s"}},
          {"client path", "show", "", {"client path show web1 0"}},
          {"client path",
           "add",
           "",
           {"client path add web1 ip:10.0.1.1@ip:10.0.1.2", "client path add web1 10.0.1.2 4321"}},
          {"client path",
           "remove",
           "Removing the last connected path needs force, because IO stops without it.",
           {"client path remove web1 1", "client path remove web1 ip:10.0.1.1@ip:10.0.1.2"}},
          {"client path", "delete", "", {"client path delete web1 1"}},
          {"client path", "disconnect", "", {"client path disconnect web1 1"}},
          {"client path",
           "reconnect",
           "A connected path is closed first; its requests continue over the other paths.",
           {"client path reconnect web1 1"}},
          {"client device", "list", "", {"client device list", "client device list web1 --json"}},
          {"client device", "show", "", {"client device show disk0"}},
          {"client device",
           "map",
           "It becomes an NBD export of the same name.",
           {"client device map disk1 web1 ro"}},
          {"client device",
           "unmap",
           "With force, later requests of NBD connections that use the device fail. A device given with "
           "device= is reopened for the next connection that requests it.",
           {"client device unmap disk1", "client device unmap disk1 web1 force"}},
          {"client device", "remap", "", {"client device remap disk1"}},
          {"client device",
           "resize",
           "SIZE is in bytes, or as 10G. Nothing is sent to the server: resize the export there first. NBD "
           "connections that use the device keep the old size; new ones get the new size.",
           {"client device resize disk1 10G"}},
          {"client", "stats", "", {"client stats", "client stats --json"}},
          {"client",
           "timers",
           "Parameters of the plugin, such as queue_timeout=, set them; see \"nbdkit-urtrs help KEY\".",
           {"client timers", "client timers web1 --json"}},
          {"client",
           "metrics",
           "For the textfile collector of node_exporter: write it to another file first and rename that.",
           {"client metrics", "client metrics > urtrs.tmp && mv urtrs.tmp urtrs.prom"}},
          {"client", "reset", "SESSION may be omitted if there is only one.", {"client reset web1"}},
          {"client", "top", "", {"client top --interval=5", "client top --count=1 --json"}},
          {"client", "monitor", "", {"client monitor", "client monitor web1 --json --count=10"}},
          {"client", "debug", "", {"client debug dump", "client debug dump --json"}}};
}

std::vector<Detail> of_mappings() {
  return {
      {"mapping", "list", "", {"mapping list", "mapping list --json"}},
      {"mapping", "show", "", {"mapping show disk0"}},
      {"",
       "map",
       "Prints the URI for NBD clients, and with --nbd the device of the kernel. urtrs-mapd keeps it mapped "
       "until unmap, also after a restart. SERVER is an existing session, or a host. For a host, the new "
       "session is named HOST@SERVER; without ADDRESS, SERVER is its only path. Its name at the server is "
       "IDENTITY-SERVER-RANDOM, with the host name instead of IDENTITY if there is no key. --session=NAME "
       "sets both names.\n"
       "The kernel device survives the exit of its nbdkit: IO waits for the next nbdkit, for up to 300 s or "
       "--nbd-wait. This needs \"urtrs-mapd --kernel-devices\".\n"
       "With --run, the device is mapped while the command runs. The command has the variables uri and "
       "unixsocket, and its exit code is returned. Without urtrs-mapd, a separate nbdkit serves the device.\n"
       "A key or certificate given with --tls-keys and the like applies to the session and replaces the one "
       "of urtrs-mapd. urtrs-mapd reads the file, as its own user.",
       {"map disk0 from 10.0.0.2", "map disk0 from storage1 10.0.0.1@10.0.0.2 10.0.1.1@10.0.1.2 ro",
        "map disk0 from 10.0.0.2 --nbd=/dev/nbd0", "map disk0 from 10.0.0.2 --tls-keys=/etc/urtrs/web1.key",
        "map disk0 from 10.0.0.2 --run 'nbdcopy -p $uri disk0.img'"}},
      {"",
       "unmap",
       "A kernel device that --nbd attached is flushed and detached first. A mounted device is detached only "
       "with \"force\".",
       {"unmap disk0", "unmap disk0 force"}},
      {"", "remap", "", {"remap disk0"}},
  };
}

std::vector<Detail> of_server() {
  return {
      {"session",
       "list",
       "Below each session are its paths.",
       {"session list", "session list +reads +writes --unit=M"}},
      {"session", "show", "", {"session show web1", "session show web1 --json"}},
      {"session",
       "disconnect",
       "In-flight requests get no reply; the client resends them after reconnecting.",
       {"session disconnect web1"}},
      {"path", "list", "", {"path list", "path list web1 all --csv"}},
      {"path", "show", "", {"path show web1 ip:10.0.1.7@ip:10.0.1.1", "path show web1 0"}},
      {"path", "disconnect", "", {"path disconnect web1 ip:10.0.1.7@ip:10.0.1.1", "path disconnect web1 0"}},
      {"device", "list", "", {"device list", "device list web1 --json"}},
      {"device", "show", "", {"device show disk0"}},
      {"device",
       "close",
       "A client of urtrs reopens the device with its next request, and learns its size. The Linux client "
       "does not: all its IO to the device fails until it has lost all its paths and one has reconnected, as "
       "after \"urtrs session disconnect\". So a session whose client uses no extension of urtrs needs "
       "force. If a disk has grown, write its new size in 512-byte sectors to /sys/block/rnbdN/rnbd/resize "
       "at the Linux client instead.",
       {"device close disk0 web1", "device close disk0 web1 force"}},
      {"export", "list", "", {"export list"}},
      {"export",
       "add",
       "A relative file name is relative to the current directory. Write a comma in a file name twice.",
       {"export add disk1=/srv/disk1.img", "export add iso=/srv/a.iso,ro", "export add scratch=mem:1G"}},
      {"export", "remove", "", {"export remove disk1", "export remove disk1 force"}},
      {"", "reload", "Prints changes, and what needs a restart. An error changes nothing.", {"reload"}},
      {"", "stats", "", {"stats", "stats --json"}},
      {"", "reset", "Without SESSION: all sessions.", {"reset", "reset web1", "reset web1 0"}},
      {"",
       "top",
       "On a terminal, each update replaces the last.",
       {"top --interval=5", "top --count=1 --json"}},
      {"",
       "monitor",
       "With --json each line is an object, with --csv a row.",
       {"monitor", "monitor --json --count=10"}},
      {"",
       "trace",
       "start records into FILE until stop, in the detail set by trace_detail of urtrsd; dump writes the "
       "most recent records, which are always kept. The file is written by urtrsd. urtrs-replay reads it.",
       {"trace start /var/lib/urtrs/now.rtrc", "trace stop", "trace dump /var/lib/urtrs/last.rtrc"}},
      {"reason", "list", "", {"reason list", "reason list all"}},
      {"reason",
       "show",
       "CODE is the reason in a log line, an event or a metric.",
       {"reason show heartbeat_lost"}},
      {"",
       "debug",
       "Requests without a response, and what each waits for and for how long.",
       {"debug dump", "debug dump --json"}},
      {"", "log", "Holds until the next reload or restart.", {"log debug"}},
  };
}

std::vector<Detail> of_host() {
  return {
      {"", "daemons", "", {"daemons", "daemons --json"}},
      {"",
       "doctor",
       "Each line is ok, warn or fail, followed by a suggested fix. The exit code is 1 if a check fails.\n"
       "--rdma tests the RDMA devices instead: their properties, the features that RTRS needs, and their "
       "speed. Each line is ok, failed or not there. With PEER it tests the connection to an \"urtrs doctor "
       "--rdma --listen\" on another host, which waits there for 10 minutes. If PEER is a name with several "
       "addresses, each is tried until one answers.",
       {"doctor", "doctor --json", "doctor --rdma", "doctor --rdma --rdma-device=mlx5_0 --rounds=1000000",
        "doctor --rdma 10.0.0.2"}},
      {"",
       "limits",
       "If no urtrsd is running, set and used are empty.",
       {"limits", "limits all --csv", "limits --json | jq '.limits[] | select(.used != null)'"}},
      {"", "version", "", {"version --json"}},
  };
}

std::vector<Detail> of_keys() {
  return {{"key",
           "new",
           "Without FILE, the line is printed. Put it into the key file of the server (tls_keys, or "
           "auth_keys on verbs and libfabric) and into one of the client, and keep it secret. \"urtrs "
           "reload\" makes a running server read its file again.",
           {"key new web1 /etc/urtrs/keys", "key new web1"}},
          {"key", "list", "", {"key list /etc/urtrs/keys"}}};
}

const std::vector<Detail>& details() {
  static const std::vector<Detail> all = [] {
    std::vector<Detail> both = of_server();
    for (const auto& more : {of_mappings(), of_clients(), of_host(), of_keys()})
      both.insert(both.end(), more.begin(), more.end());
    return both;
  }();
  return all;
}

const Detail* detail_of(const Form& form) {
  const std::string noun = form.noun;
  const std::string verb = form.verb;
  const auto found = std::find_if(details().begin(), details().end(),
                                  [&](const Detail& one) { return noun == one.noun && verb == one.verb; });
  return found == details().end() ? nullptr : &*found;
}

// Returns the fields of the table that the command prints.
std::vector<Field> fields_of(const std::string& noun, const std::string& verb) {
  const nlohmann::json nothing{{"sessions", nlohmann::json::array()},
                               {"devices", nlohmann::json::array()},
                               {"exports", nlohmann::json::array()},
                               {"stats", nlohmann::json::object()}};
  if (noun == "mapping") return mappings(nothing, {}).fields;
  if (verb == "list" || verb == "show") {
    if (noun == "client session") return client_sessions(nothing).fields;
    if (noun == "client path") return client_paths(nothing, {}).fields;
    if (noun == "client device") return client_devices(nothing, {}).fields;
    if (noun == "session") return sessions(nothing).fields;
    if (noun == "path") return paths(nothing, {}).fields;
    if (noun == "device") return devices(nothing, {}).fields;
    if (noun == "export") return exports(nothing).fields;
    if (noun == "reason") return reasons().fields;
    if (noun == "key") return key_fields();
  }
  if (noun == "client" && verb == "stats") return client_statistics(nothing).fields;
  if (noun == "client" && verb == "timers") return client_timers(nothing, {}).fields;
  if (noun == "client" && verb == "metrics") return {};
  if (noun == "client" && verb == "top") return client_rates(nothing, nothing, 1).fields;
  if (noun == "client" && verb == "debug") return {};
  if (verb == "stats") return statistics(nothing).fields;
  if (verb == "top") return rates(nothing, nothing, 1).fields;
  if (verb == "monitor") return event_fields();
  if (verb == "debug") return in_flight(nothing).fields;
  if (verb == "doctor") return rdma_checks({}).fields;
  if (verb == "daemons") return daemon_fields();
  if (verb == "limits") return limit_table(nullptr).fields;
  return {};
}

// Explains the placeholders in the syntax of a command.
std::string meanings(const Form& form) {
  const std::string arguments = form.arguments;
  const std::string_view verb = form.verb;
  const bool of_mapd =
      std::string_view(form.noun) == "mapping" || verb == "map" || verb == "unmap" || verb == "remap";
  const bool on_client = is_client(form.noun);
  const std::string sessions =
      fmt::format("name of a session; \"urtrs {} list\" shows all", on_client ? "client session"
                                                                    : of_mapd ? "mapping"
                                                                              : "session");
  const std::pair<const char*, const char*> meanings[] = {
      {"SESSION", sessions.c_str()},
      {"SERVER", "a host name or address, or an existing session"},
      {"PATH", "CLIENT@SERVER addresses, the client address, an RDMA device, or the index"},
      {"DEVICE", on_client || of_mapd ? "name of the export at the server"
                                      : "name that the client requested, or the exported file"},
      {"ADDRESS", "[SRC@]DST, as in path= of the plugin"},
      {"PORT", "port of the server; default: the port of the session"},
      {"PEER", "[SRC@]DST: another host, or with --listen the local address"},
      {"POLICY", "rr (round-robin), mi (min-inflight) or ml (min-latency)"},
      {"MODE", "ro, rw or migration; default rw"},
      {"IDENTITY", "name of the client: 1 to 128 of A-Z a-z 0-9 . _ : @ -"},
      {"CODE", "code of a reason; \"urtrs reason list\" shows all"},
      {"NAME", "name of the export"},
      {"SOURCE", "a file, a block device, mem:SIZE, or the URI of an NBD server"},
      {"LEVEL", "trace, debug, info, warn or error"},
      {"FILE", "absolute, or relative to this directory"}};
  std::string text;
  for (const auto& [word, what] : meanings)
    if (arguments.find(word) != std::string::npos) text += tools::help_entry(word, what, 12);
  return text;
}

// Formats the fields as a table with columns as narrow as possible, so that most descriptions fit on one
// line.
std::string table_of(const std::vector<Field>& fields) {
  std::size_t name = 0;
  std::size_t header = 0;
  for (const Field& field : fields) {
    name = std::max(name, std::string_view(field.name).size() + (field.by_default ? 2 : 3));
    header = std::max(header, std::string_view(field.header).size() + 2);
  }
  std::string text;
  for (const Field& field : fields) {
    const std::string starred = std::string(field.name) + (field.by_default ? "" : "*");
    text +=
        tools::help_entry(fmt::format("{:{}}{}", starred, name, field.header), field.what, 2 + name + header);
  }
  return text;
}

std::string help_of(const Form& form) {
  const char* gap = *form.arguments != '\0' ? " " : "";
  const std::string usage = fmt::format("Usage: urtrs {}{}{}", full_name(form), gap, form.arguments);
  std::string text = usage + " [OPTION]...\n" + tools::wrapped(fmt::format("{}.\n", form.what));
  const Detail* detail = detail_of(form);
  if (detail != nullptr && *detail->more != '\0') text += tools::wrapped(detail->more) + "\n";
  if (const std::string words = meanings(form); !words.empty()) text += "\nArguments:\n" + words;
  const std::vector<Field> fields = fields_of(form.noun, form.verb);
  if (!fields.empty()) text += "\nFields of --fields, JSON and CSV; fields with a star must be requested:\n";
  text += table_of(fields);
  if (detail != nullptr && !detail->examples.empty()) {
    text += "\nExamples:\n";
    for (const std::string& example : detail->examples) text += fmt::format("  urtrs {}\n", example);
  }
  return text;
}

std::string help_of_noun(const std::string& noun) {
  std::string text = fmt::format("Usage: urtrs {} COMMAND [ARGUMENT]... [OPTION]...\n\nCommands:\n", noun);
  for (const Form& form : forms())
    if (noun == form.noun || (noun == "client" && is_client(form.noun))) text += help_entry(form);
  return text + fmt::format("\n\"urtrs {} COMMAND --help\" has details of each.\n", noun);
}

}  // namespace

std::string full_name(const Form& form) {
  return *form.noun != '\0' ? fmt::format("{} {}", form.noun, form.verb) : form.verb;
}

std::string help_entry(const Form& form) {
  std::string name = full_name(form);
  if (*form.arguments != '\0') name += fmt::format(" {}", form.arguments);
  return tools::help_entry(name, form.what);
}

std::vector<std::string> examples_of(const Form& form) {
  const Detail* detail = detail_of(form);
  return detail == nullptr ? Words{} : detail->examples;
}

std::string help(const Command& command) {
  if (command.options.help_all) return help_all();
  if (command.verb.empty()) return command.noun.empty() ? help() : help_of_noun(command.noun);
  for (const Form& form : forms())
    if (command.noun == form.noun && command.verb == form.verb) return help_of(form);
  return help();
}

}  // namespace rtrs::admin
