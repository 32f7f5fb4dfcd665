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
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon can be asked, 4 no answer in time, 128 and the "
    "number of a signal that ended it.\n";

constexpr const char* kExitCodeOfRun = "With --run that of the command.\n";

constexpr const char* kWords =
    "Plurals and unambiguous beginnings of words do, and options as bare words: urtrs sess li json. Behind "
    "-- every word is an argument.\n";

// A group of the overview: nouns, and verbs that need no noun.
struct Group {
  const char* title;
  std::vector<const char*> nouns;
  std::vector<const char*> verbs;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all{
      {"Of the server, urtrsd",
       {"session", "path", "device", "export"},
       {"stats", "top", "monitor", "reset", "trace", "debug", "log", "reload"}},
      {"Devices of a server, used on this host", {"mapping"}, {"map", "unmap", "remap"}},
      {"Of the clients of this host", {"client session", "client path", "client device", "client"}, {}},
      {"Of this host, without a daemon", {"key", "reason"}, {"doctor", "daemons", "limits"}}};
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
  return help_entry("-h,--help", "print this help, or that of a command, then leave") +
         help_entry("--help-all", "all commands and options") +
         help_entry("--version", "print version, fabrics and compiler, then leave") +
         help_entry("--json", "for programs; mistakes are JSON too");
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
  text += help_entry("--fields=A,B", "which columns; also +A, -A and all as words");
  text += help_entry("--unit=U", "of bytes: B, K (1024), M, G, T, P or E; default: what reads best");
  text += help_entry("--no-headers", "without the line of headers");
  text += help_entry("--no-tree", "without the lines below each row");
  text += help_entry("--no-totals", "without the line of totals");
  text += help_entry("--socket=FILE", "of the daemon or client to ask; default: those that run");
  text += help_entry("--interval=SECONDS", "of top; default: 1");
  text += help_entry("--count=N", "leave after N, of top and monitor; default: Ctrl-C");
  text += help_entry("--run=COMMAND", "of map: runs it, then unmaps");
  text += help_entry("--nbd[=DEVICE]", "of map: attaches a device of the kernel, as root");
  text += help_entry("--nbd-wait=SECONDS",
                     "of map --nbd: for how long IO waits for an nbdkit that died; default: 300");
  text += help_entry("--port=N", "of map: of the server; default: 1234. Of doctor --rdma: 18516");
  text += help_entry("--fabric=NAME", "of map: tcp, libfabric or verbs; default: tcp");
  text += help_entry("--session=NAME", "of map: name of a new session, here and at the server");
  text += help_entry("--tls=require|off", "of map: towards the server; default: as urtrs-mapd was told");
  text += help_entry("--tls-keys=FILE",
                     "of map: the key of this client; also --tls-identity=NAME, --tls-cert=FILE, "
                     "--tls-key=FILE, --tls-ca=FILE, --tls-crl=FILE, --tls-server-name=NAME and "
                     "--tls-kernel=on|off, as nbdkit-urtrs has them");
  text += help_entry("--auth-keys=FILE", "of map: on verbs and libfabric; also --auth-identity=NAME");
  text += help_entry("--idempotent", "of map: it is no mistake that the device is mapped already");
  text += help_entry("--rdma", "of doctor: tests the RDMA devices, or the way to a peer");
  text += help_entry("--listen", "of doctor --rdma: waits for another host that tests the way");
  text += help_entry("--rdma-device=NAME", "of doctor --rdma: that one alone");
  text += help_entry("--rounds=N", "of doctor --rdma: that data are there with what tells of them");
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
