// Help texts: an overview of the commands by group, which fits on one screen, and a list of all commands with
// all options.
#include <fmt/format.h>

#include <algorithm>

#include "tools/lib/text/help_text.hpp"
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

namespace {

using tools::help_entry;
using tools::wrapped;

constexpr const char* kAbout = "Shows and changes urtrsd and the clients of this host, and maps devices.\n";

constexpr const char* kExitCodes =
    "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 no daemon can be reached, 4 timeout, 128 + N ended "
    "by signal N.\n";

constexpr const char* kExitCodeOfRun = "With --run, the exit code of the command.\n";

constexpr const char* kWords =
    "Commands may be plural or abbreviated, and options may be bare words: urtrs sess li json. After --, "
    "every word is an argument.\n";

// A group of the overview: nouns, and verbs that need no noun.
struct Group {
  const char* title;
  std::vector<const char*> nouns;
  std::vector<const char*> verbs;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all{
      {"Server (urtrsd)",
       {"session", "path", "device", "export"},
       {"stats", "top", "monitor", "reset", "trace", "debug", "log", "reload"}},
      {"Devices of a server, used on this host", {"mapping"}, {"map", "unmap", "remap"}},
      {"Clients of this host", {"client session", "client path", "client device", "client"}, {}},
      {"This host, without a daemon", {"key", "reason"}, {"doctor", "daemons", "limits"}}};
  return all;
}

std::string verbs_of(const std::string& noun) {
  std::string text;
  for (const Form& form : forms())
    if (noun == form.noun) text += (text.empty() ? "" : ", ") + std::string(form.verb);
  return text;
}

const char* meaning_of(const std::string& verb) {
  const auto form = std::find_if(forms().begin(), forms().end(),
                                 [&](const Form& one) { return *one.noun == '\0' && verb == one.verb; });
  return form == forms().end() ? "" : form->what;
}

std::string common_options() {
  return help_entry("-h,--help", "print this help, or that of a command, and exit") +
         help_entry("--help-all", "all commands and options") +
         help_entry("--version", "print version, fabrics and compiler, and exit") +
         help_entry("--json", "JSON output, also for errors");
}

}  // namespace

std::string help() {
  std::string text = wrapped(kAbout) + "Usage: urtrs [OPTIONS] [THING] COMMAND [ARGUMENT]...\n";
  for (const Group& group : groups()) {
    text += fmt::format("\n{}:\n", group.title);
    for (const char* noun : group.nouns) text += help_entry(noun, verbs_of(noun), 18);
    for (const char* verb : group.verbs) text += help_entry(verb, meaning_of(verb), 18);
  }
  return text + "\nOptions:\n" + common_options() +
         "\n\"urtrs COMMAND --help\" has the arguments, fields and examples of a command.\n" +
         "\nExamples:\n" + "  urtrs path disconnect web1 ip:10.0.1.7@ip:10.0.1.1\n" +
         "  urtrs map disk0 from 10.0.0.2 && urtrs mapping list\n\n" + wrapped(kExitCodes);
}

std::string help_all() {
  std::string text = wrapped(kAbout) +
                     "Usage: urtrs [OPTIONS] [session|path|device|export|mapping] COMMAND [ARG]...\n"
                     "       urtrs [OPTIONS] client [session|path|device] COMMAND [ARG]...\n"
                     "\nPositionals:\n";
  for (const Form& form : forms()) text += help_entry(form);
  text += "\nOptions:\n" + common_options();
  text += help_entry("--csv", "for spreadsheets");
  text += help_entry("--fields=A,B", "columns to show; also +A, -A and all as bare words");
  text += help_entry("--unit=U", "unit of bytes: B, K (1024), M, G, T, P or E; default: automatic");
  text += help_entry("--no-headers", "omit the header line");
  text += help_entry("--no-tree", "omit the lines below each row");
  text += help_entry("--no-totals", "omit the line of totals");
  text += help_entry("--socket=FILE", "control socket of the daemon or client; default: all that run");
  text += help_entry("--interval=SECONDS", "seconds between updates of top; default: 1");
  text += help_entry("--count=N", "top, monitor: exit after N; default: run until Ctrl-C");
  text += help_entry("--run=COMMAND", "map: run COMMAND, then unmap");
  text += help_entry("--nbd[=DEVICE]", "map: attach a kernel device (/dev/nbdN), as root");
  text += help_entry("--nbd-wait=SECONDS",
                     "map --nbd: how long IO waits for an nbdkit that exited; default: 300");
  text += help_entry("--port=N", "map: port of the server; default: 1234. doctor --rdma: default: 18516");
  text += help_entry("--fabric=NAME", "map: tcp, libfabric or verbs; default: tcp");
  text += help_entry("--session=NAME", "map: name of a new session, here and at the server");
  text += help_entry("--tls=require|off", "map: TLS to the server; default: the setting of urtrs-mapd");
  text += help_entry(
      "--tls-keys=FILE",
      "map: key of this client; also --tls-identity=NAME, --tls-cert=FILE, --tls-key=FILE, --tls-ca=FILE, "
      "--tls-crl=FILE, --tls-server-name=NAME and --tls-kernel=on|off, as in nbdkit-urtrs");
  text += help_entry("--auth-keys=FILE",
                     "map: key of this client on verbs and libfabric; also --auth-identity=NAME");
  text += help_entry("--idempotent", "map: succeed if the device is already mapped");
  text += help_entry("--rdma", "doctor: test the RDMA devices, or the connection to a peer");
  text += help_entry("--listen", "doctor --rdma: wait for a test from another host");
  text += help_entry("--rdma-device=NAME", "doctor --rdma: test only this device");
  text +=
      help_entry("--rounds=N", "doctor --rdma: rounds of the test that data arrive before their immediate");
  text += "\n" + wrapped(kWords) +
          "\"urtrs COMMAND --help\" has the fields and examples of a command.\n"
          "\nExamples:\n"
          "  urtrs session list\n"
          "  urtrs path disconnect web1 ip:10.0.1.7@ip:10.0.1.1\n"
          "  urtrs device list --json | jq -r '.devices[].mapping_path'\n"
          "  urtrs top --interval=5\n"
          "  urtrs client path add web1 ip:10.0.1.7@ip:10.0.1.1\n"
          "  urtrs map disk0 from 10.0.0.2 && urtrs mapping list\n\n";
  return text + wrapped(kExitCodes) + kExitCodeOfRun;
}

}  // namespace rtrs::admin
