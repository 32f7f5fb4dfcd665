#include "tools/urtrs/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/urtrs/client_views.hpp"
#include "tools/urtrs/doctor.hpp"
#include "tools/urtrs/keys.hpp"
#include "tools/urtrs/mappings.hpp"
#include "tools/urtrs/top.hpp"
#include "tools/urtrs/views.hpp"
#include "tools/urtrs/watch.hpp"

namespace rtrs::admin {

namespace {

using Words = std::vector<std::string>;

// What else there is to say of a command.
struct Detail {
  const char* noun;
  const char* verb;
  const char* more;
  Words examples;
};

std::vector<Detail> of_clients() {
  return {
      {"client session",
       "list",
       "Below each session are its paths.",
       {"client session list", "client session list all --csv"}},
      {"client session", "show", "", {"client session show web1"}},
      {"client session",
       "policy",
       "POLICY: rr takes each path in turn, mi the one with the fewest requests, ml the one with the fastest "
       "heartbeat;\none that is not measured yet comes last. It holds until the process ends; policy= of the "
       "plugin is for the start.",
       {"client session policy web1 min-latency", "client session policy web1 rr"}},
      {"client session", "recover", "", {"client session recover web1"}},
      {"client path", "list", "", {"client path list", "client path list web1 +rtt_us +attempt +next_s"}},
      {"client path", "show", "", {"client path show web1 0"}},
      {"client path",
       "add",
       "",
       {"client path add web1 ip:10.0.1.1@ip:10.0.1.2", "client path add web1 10.0.1.2 4321"}},
      {"client path",
       "remove",
       "Without the last path that is connected IO stands still, so that needs force.",
       {"client path remove web1 1", "client path remove web1 ip:10.0.1.1@ip:10.0.1.2"}},
      {"client path", "delete", "", {"client path delete web1 1"}},
      {"client path", "disconnect", "", {"client path disconnect web1 1"}},
      {"client path",
       "reconnect",
       "One that is connected is closed first; its requests go on over the others.",
       {"client path reconnect web1 1"}},
      {"client device", "list", "", {"client device list", "client device list web1 --json"}},
      {"client device", "show", "", {"client device show disk0"}},
      {"client device", "map", "It is an NBD export of its name then.", {"client device map disk1 web1 ro"}},
      {"client device",
       "unmap",
       "With force the requests of NBD connections that have it fail from then on. A device of device= is\n"
       "opened again for the next connection that asks for it.",
       {"client device unmap disk1", "client device unmap disk1 web1 force"}},
      {"client device", "remap", "", {"client device remap disk1"}},
      {"client device",
       "resize",
       "SIZE is in bytes, or as 10G. Nothing is sent to the server: resize the export there first. NBD\n"
       "connections that have the device keep the size that they were told; new ones get the new size.",
       {"client device resize disk1 10G"}},
      {"client", "stats", "", {"client stats", "client stats --json"}},
      {"client",
       "reset",
       "Without a session those of the only one.",
       {"client reset web1", "client reset web1 0"}},
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
       "until\n"
       "unmap, also after a restart. SERVER is a session that is mapped already, or a host; then the session "
       "is\n"
       "HOST@SERVER, and SERVER its only path where no ADDRESS is given.\n"
       "With --run it is mapped for as long as the command takes, which has the variables uri and "
       "unixsocket; the\n"
       "exit code is that of the command. Without urtrs-mapd an nbdkit of its own serves it.",
       {"map disk0 from 10.0.0.2", "map disk0 from storage1 10.0.0.1@10.0.0.2 10.0.1.1@10.0.1.2 ro",
        "map disk0 from 10.0.0.2 --nbd=/dev/nbd0",
        "map disk0 from 10.0.0.2 --run 'nbdcopy -p $uri disk0.img'"}},
      {"",
       "unmap",
       "A device of the kernel that --nbd attached is detached first.",
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
       "Requests under way are answered by nobody; the client sends them again when it is connected.",
       {"session disconnect web1"}},
      {"path", "list", "", {"path list", "path list web1 all --csv"}},
      {"path", "show", "", {"path show web1 ip:10.0.1.7@ip:10.0.1.1", "path show web1 0"}},
      {"path", "disconnect", "", {"path disconnect web1 ip:10.0.1.7@ip:10.0.1.1", "path disconnect web1 0"}},
      {"device", "list", "", {"device list", "device list web1 --json"}},
      {"device", "show", "", {"device show disk0"}},
      {"device",
       "close",
       "The client hears of it with its next request, which fails or opens the device again.",
       {"device close disk0 web1"}},
      {"export", "list", "", {"export list"}},
      {"export",
       "add",
       "A comma in the name of a file is written twice.",
       {"export add disk1=/srv/disk1.img", "export add iso=/srv/a.iso,ro", "export add scratch=mem:1G"}},
      {"export", "remove", "", {"export remove disk1", "export remove disk1 force"}},
      {"", "reload", "Prints what changed, and what needs a restart. A mistake changes nothing.", {"reload"}},
      {"", "stats", "", {"stats", "stats --json"}},
      {"", "reset", "Without a session those of all.", {"reset", "reset web1", "reset web1 0"}},
      {"", "top", "In a terminal each look replaces the last.", {"top --interval=5", "top --count=1 --json"}},
      {"",
       "monitor",
       "With --json a line is an object, with --csv a row.",
       {"monitor", "monitor --json --count=10"}},
      {"",
       "trace",
       "start records into FILE until stop; dump writes the last records, which are always kept. The file is "
       "written\nby urtrsd. urtrs-replay reads it.",
       {"trace start /var/lib/urtrs/now.rtrc", "trace stop", "trace dump /var/lib/urtrs/last.rtrc"}},
      {"reason", "list", "", {"reason list", "reason list all"}},
      {"reason",
       "show",
       "CODE is a word of the log, of an event or of a metric.",
       {"reason show heartbeat_lost"}},
      {"",
       "debug",
       "Requests that are not answered, with what each waits for and since when; the longest wait is the one "
       "to look at.",
       {"debug dump", "debug dump --json"}},
      {"", "log", "Until the next reload or restart.", {"log debug"}},
      {"", "daemons", "", {"daemons", "daemons --json"}},
      {"",
       "doctor",
       "Each line is ok, warn or fail, with what mends it below. Exit code 1 where a check fails.",
       {"doctor", "doctor --json"}},
      {"", "version", "", {"version --json"}},
  };
}

std::vector<Detail> of_keys() {
  return {
      {"key",
       "new",
       "Without FILE the line is printed. It goes into the file of the server (tls_keys, or auth_keys on "
       "verbs and libfabric) and into one of the "
       "client, and is\nas secret as what it protects. A server that runs reads its file again with urtrs "
       "reload.",
       {"key new web1 /etc/urtrs/keys", "key new web1"}},
      {"key", "list", "", {"key list /etc/urtrs/keys"}}};
}

const std::vector<Detail>& details() {
  static const std::vector<Detail> all = [] {
    std::vector<Detail> both = of_server();
    for (const auto& more : {of_mappings(), of_clients(), of_keys()})
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

// The columns of what a command prints.
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
  if (noun == "client" && verb == "top") return client_rates(nothing, nothing, 1).fields;
  if (noun == "client" && verb == "debug") return {};
  if (verb == "stats") return statistics(nothing).fields;
  if (verb == "top") return rates(nothing, nothing, 1).fields;
  if (verb == "monitor") return event_fields();
  if (verb == "debug") return in_flight(nothing).fields;
  if (verb == "doctor") return findings({}).fields;
  if (verb == "daemons") return daemon_fields();
  return {};
}

// What the words in capitals of a usage stand for.
std::string meanings(const Form& form) {
  const std::string arguments = form.arguments;
  const std::string sessions = fmt::format("name of a session; \"urtrs {}session list\" shows all",
                                           is_client(form.noun) ? "client " : "");
  const std::pair<const char*, const char*> meanings[] = {
      {"SESSION", sessions.c_str()},
      {"SERVER", "a host name or address, or a session that is mapped already"},
      {"PATH", "CLIENT@SERVER addresses, the client's address, an RDMA device, or the index of the path"},
      {"DEVICE", "as the client asked for it, or, of a server, the file that is exported"},
      {"ADDRESS", "[SRC@]DST, as in path= of the plugin"},
      {"PORT", "of the server; default: that of the session"},
      {"POLICY", "rr (round-robin), mi (min-inflight) or ml (min-latency)"},
      {"MODE", "ro, rw or migration; default rw"},
      {"IDENTITY", "who the client is: 1 to 128 of A-Z a-z 0-9 . _ : @ -"},
      {"CODE", "of a reason; \"urtrs reason list\" shows all"},
      {"NAME", "of the export"},
      {"SOURCE", "a file, a block device, mem:SIZE, or the URI of an NBD server"},
      {"LEVEL", "trace, debug, info, warn or error"},
      {"FILE", "absolute, or relative to this directory"}};
  std::string text;
  for (const auto& [word, what] : meanings)
    if (arguments.find(word) != std::string::npos) text += fmt::format("  {:10}{}\n", word, what);
  return text;
}

std::string full_name(const Form& form) {
  return *form.noun != '\0' ? fmt::format("{} {}", form.noun, form.verb) : form.verb;
}

void entry(std::string& text, const std::string& name, const char* what) {
  if (name.size() > 26)
    text += fmt::format("  {}\n{:30}{}\n", name, "", what);
  else
    text += fmt::format("  {:28}{}\n", name, what);
}

void entry(std::string& text, const Form& form) {
  std::string name = full_name(form);
  if (*form.arguments != '\0') name += fmt::format(" {}", form.arguments);
  entry(text, name, form.what);
}

std::string help_of(const Form& form) {
  std::string text = fmt::format("Usage: urtrs {}{}{} [OPTION]...\n{}.\n", full_name(form),
                                 *form.arguments != '\0' ? " " : "", form.arguments, form.what);
  const Detail* detail = detail_of(form);
  if (detail != nullptr && *detail->more != '\0') text += fmt::format("{}\n", detail->more);
  if (const std::string words = meanings(form); !words.empty()) text += "\nArguments:\n" + words;
  const std::vector<Field> fields = fields_of(form.noun, form.verb);
  if (!fields.empty())
    text += "\nFields, of --fields, JSON and CSV; those with a star only where they are asked for:\n";
  for (const Field& field : fields)
    text += fmt::format("  {:16}{:16}{}\n", std::string(field.name) + (field.by_default ? "" : "*"),
                        field.header, field.what);
  if (detail != nullptr && !detail->examples.empty()) {
    text += "\nExamples:\n";
    for (const std::string& example : detail->examples) text += fmt::format("  urtrs {}\n", example);
  }
  return text + "\n\"urtrs --help\" has all commands and options.\n";
}

std::string help_of_noun(const std::string& noun) {
  std::string text = fmt::format("Usage: urtrs {} COMMAND [ARGUMENT]... [OPTION]...\n\nCommands:\n", noun);
  for (const Form& form : forms())
    if (noun == form.noun || (noun == "client" && is_client(form.noun))) entry(text, form);
  return text +
         fmt::format(
             "\n\"urtrs {} COMMAND --help\" has more of one, \"urtrs --help\" all commands and options.\n",
             noun);
}

}  // namespace

std::vector<std::string> examples_of(const Form& form) {
  const Detail* detail = detail_of(form);
  return detail == nullptr ? Words{} : detail->examples;
}

std::string help() {
  std::string text =
      "Shows and changes a running urtrsd and the clients of this host, and maps devices.\n"
      "Usage: urtrs [OPTIONS] [session|path|device|export|mapping] COMMAND [ARGUMENT]...\n"
      "       urtrs [OPTIONS] client [session|path|device] COMMAND [ARGUMENT]...\n"
      "\nPositionals:\n";
  for (const Form& form : forms()) entry(text, form);
  text += "\nOptions:\n";
  entry(text, "-h,--help", "print this help, or that of a command, then leave");
  entry(text, "--version", "print version, fabrics and compiler, then leave");
  entry(text, "--json", "for programs; mistakes are JSON too");
  entry(text, "--csv", "for spreadsheets");
  entry(text, "--fields=A,B", "which columns; also +A, -A and all as words");
  entry(text, "--unit=U", "of bytes: B, K, M, G, T, P or E; default: what reads best");
  entry(text, "--no-headers", "without the line of headers");
  entry(text, "--no-tree", "without the lines below each row");
  entry(text, "--no-totals", "without the line of totals");
  entry(text, "--socket=FILE", "of the daemon or client to ask; default: those that run");
  entry(text, "--interval=SECONDS", "of top; default: 1");
  entry(text, "--count=N", "leave after N, of top and monitor; default: Ctrl-C");
  entry(text, "--run=COMMAND", "of map: runs it, then unmaps");
  entry(text, "--nbd[=DEVICE]", "of map: attaches a device of the kernel, by nbd-client as root");
  entry(text, "--port=N", "of map: of the server; default: 1234");
  entry(text, "--fabric=NAME", "of map: tcp, libfabric or verbs; default: tcp");
  entry(text, "--idempotent", "of map: it is no mistake that the device is mapped already");
  text +=
      "\nPlurals and unambiguous beginnings of words do, and options as bare words: urtrs sess li json.\n"
      "Behind -- every word is an argument. \"urtrs COMMAND --help\" has the fields and examples of a "
      "command.\n"
      "\nExamples:\n"
      "  urtrs session list\n"
      "  urtrs path disconnect web1 ip:10.0.1.7@ip:10.0.1.1\n"
      "  urtrs device list --json | jq -r '.devices[].mapping_path'\n"
      "  urtrs top --interval=5\n"
      "  urtrs client path add web1 ip:10.0.1.7@ip:10.0.1.1\n"
      "  urtrs map disk0 from 10.0.0.2 && urtrs mapping list\n"
      "\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon can be asked, 4 no answer in time, 128 and "
      "the\n"
      "number of a signal that ended it while it waited. With --run that of the command.\n";
  return text;
}

std::string help(const Command& command) {
  if (command.verb.empty()) return command.noun.empty() ? help() : help_of_noun(command.noun);
  for (const Form& form : forms())
    if (command.noun == form.noun && command.verb == form.verb) return help_of(form);
  return help();
}

}  // namespace rtrs::admin
