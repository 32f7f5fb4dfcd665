// Help texts: an overview of the commands by group, which fits on one screen, and a list of all commands with
// all options.
#include <fmt/format.h>

#include <algorithm>
#include <span>

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

// Number of options, from the start of the table, that both help texts list.
constexpr std::size_t kCommon = 4;

std::string entries_of(std::span<const Flag> some) {
  std::string text;
  for (const Flag& flag : some)
    text += help_entry((flag.name == "help" ? "-h,--" : "--") + flag.name + flag.value, flag.help);
  return text;
}

}  // namespace

std::string help() {
  std::string text = wrapped(kAbout) + "Usage: urtrs [OPTIONS] [THING] COMMAND [ARGUMENT]...\n";
  for (const Group& group : groups()) {
    text += fmt::format("\n{}:\n", group.title);
    for (const char* noun : group.nouns) text += help_entry(noun, verbs_of(noun), 18);
    for (const char* verb : group.verbs) text += help_entry(verb, meaning_of(verb), 18);
  }
  return text + "\nOptions:\n" + entries_of(std::span(flags()).first(kCommon)) +
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
  text += "\nOptions:\n" + entries_of(flags());
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
