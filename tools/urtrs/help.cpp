#include "tools/urtrs/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/urtrs/doctor.hpp"
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

const std::vector<Detail>& details() {
  static const std::vector<Detail> all{
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
  if (verb == "list" || verb == "show") {
    if (noun == "session") return sessions(nothing).fields;
    if (noun == "path") return paths(nothing, {}).fields;
    if (noun == "device") return devices(nothing, {}).fields;
    if (noun == "export") return exports(nothing).fields;
    if (noun == "reason") return reasons().fields;
  }
  if (verb == "stats") return statistics(nothing).fields;
  if (verb == "top") return rates(nothing, nothing, 1).fields;
  if (verb == "monitor") return event_fields();
  if (verb == "debug") return in_flight(nothing).fields;
  if (verb == "doctor") return findings({}).fields;
  if (verb == "daemons") return daemon_fields();
  return {};
}

// What the words in capitals of a usage stand for.
std::string meanings(const std::string& arguments) {
  static constexpr std::pair<const char*, const char*> kMeanings[] = {
      {"SESSION", "name of a session; \"urtrs session list\" shows all"},
      {"PATH", "CLIENT@SERVER addresses, the client's address, an RDMA device, or the index of the path"},
      {"DEVICE", "as the client asked for it, or the file that is exported"},
      {"CODE", "of a reason; \"urtrs reason list\" shows all"},
      {"NAME", "of the export"},
      {"SOURCE", "a file, a block device, mem:SIZE, or the URI of an NBD server"},
      {"LEVEL", "trace, debug, info, warn or error"},
      {"FILE", "absolute, or relative to this directory"}};
  std::string text;
  for (const auto& [word, what] : kMeanings)
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
  if (const std::string words = meanings(form.arguments); !words.empty()) text += "\nArguments:\n" + words;
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
    if (noun == form.noun) entry(text, form);
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
      "Shows and changes a running urtrsd.\n"
      "Usage: urtrs [OPTIONS] [session|path|device|export] COMMAND [ARGUMENT]...\n"
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
  entry(text, "--socket=FILE", "of the daemon to ask; default: the only one that runs");
  entry(text, "--interval=SECONDS", "of top; default: 1");
  entry(text, "--count=N", "leave after N, of top and monitor; default: Ctrl-C");
  text +=
      "\nPlurals and unambiguous beginnings of words do, and options as bare words: urtrs sess li json.\n"
      "Behind -- every word is an argument. \"urtrs COMMAND --help\" has the fields and examples of a "
      "command.\n"
      "\nExamples:\n"
      "  urtrs session list\n"
      "  urtrs path disconnect web1 ip:10.0.1.7@ip:10.0.1.1\n"
      "  urtrs device list --json | jq -r '.devices[].mapping_path'\n"
      "  urtrs top --interval=5\n"
      "\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon can be asked, 4 no answer in time, 128 and "
      "the\n"
      "number of a signal that ended it while it waited.\n";
  return text;
}

std::string help(const Command& command) {
  if (command.verb.empty()) return command.noun.empty() ? help() : help_of_noun(command.noun);
  for (const Form& form : forms())
    if (command.noun == form.noun && command.verb == form.verb) return help_of(form);
  return help();
}

}  // namespace rtrs::admin
