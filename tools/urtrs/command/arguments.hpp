// Command line of urtrs: the nouns, verbs and bare words of the command `rnbd` of the RNBD developers, and
// the equivalent options with dashes.
//
//   urtrs [server] [session|path|device|export|mapping|reason|key] COMMAND [ARGUMENT...] [WORD|--OPTION...]
//   urtrs client [session|path|device] COMMAND [ARGUMENT...] [WORD|--OPTION...]
//
// A word may be abbreviated to an unambiguous prefix, or given in the plural. The noun may be omitted if the
// command exists for one noun only.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/mapping/credentials.hpp"

namespace rtrs::admin {

// Units of sizes. Each unit is 1,024 times the previous unit.
inline constexpr std::string_view kUnits = "BKMGTPE";

enum class Format { table, json, csv };

// Options of `map`.
struct MapOptions {
  std::string run;      // shell command to run; empty: none
  std::string nbd;      // kernel NBD device to use, or "auto"; empty: none
  std::string session;  // session name on this host and at the server; empty: a default
  // Parameters of the plugin, see mapping::session_parameters().
  std::map<std::string, std::string> parameters;
  bool idempotent = false;
  unsigned nbd_wait = 0;  // seconds that IO waits after nbdkit has ended; 0: not given
  bool operator==(const MapOptions&) const = default;
};

// Options of `doctor --rdma`.
struct RdmaOptions {
  bool wanted = false;   // --rdma
  bool listens = false;  // this side waits for the peer
  std::string device;    // empty: all devices
  // Number of rounds of the test that checks whether data arrives before its immediate; 0: as many as fit
  // into a few seconds.
  std::uint64_t rounds = 0;
  bool operator==(const RdmaOptions&) const = default;
};

struct Options {
  Format format = Format::table;
  std::size_t width = 0;  // maximum table width in columns, used if the user selected no fields; 0: unlimited
  unsigned formats = 0;   // number of output formats that were requested
  std::string socket;     // control socket; empty: the socket of the only daemon of this host
  // Selected fields as "name", "+name", "-name" or "all"; empty: default fields.
  std::vector<std::string> fields;
  char unit = '\0';  // a character of kUnits; 0: a suitable unit for each value
  bool headers = true;
  bool tree = true;
  bool totals = true;
  bool help = false;
  bool help_all = false;  // print the help of all commands
  double interval = 1;    // seconds between two updates of `top`
  unsigned count = 0;     // number of updates of `top`, or of events of `monitor`; 0: no limit
  MapOptions map;
  RdmaOptions rdma;
};

struct Command {
  // "session", "path", "device", "export", "mapping", "reason" or "key"; empty if the verb needs no noun. For
  // client commands: "client", or "client session" and so on.
  std::string noun;
  std::string verb;
  std::vector<std::string> arguments;
  Options options;
};

struct Mistake {
  std::string message;
  std::string hint;  // may be empty
  bool json = false;
};

// Parses the command line. `words` does not include the program name.
tl::expected<Command, Mistake> parse(const std::vector<std::string>& words);

// Syntax of a command, used for parsing, help and completion.
struct Form {
  const char* noun;
  const char* verb;
  const char* arguments;  // for example "SESSION [PATH]"
  unsigned least;         // minimum number of arguments
  unsigned most;
  const char* what;
};
const std::vector<Form>& forms();
// Returns the nouns of `side`, which is "" for the server or "client".
std::vector<std::string> nouns(const std::string& side = {});
// Returns the noun as in Command::noun: `word`, with the prefix `side` if that is not empty.
std::string noun_of(const std::string& side, const std::string& word);
bool is_client(const std::string& noun);
// Verbs of a noun; empty `noun`: verbs that need no noun.
std::vector<std::string> verbs(const std::string& noun);
// Returns the candidate that `word` stands for: the word itself, its singular, or the only candidate that
// begins with it. Empty if there is none.
std::string meant(const std::string& word, const std::vector<std::string>& candidates);
const std::vector<std::string>& log_levels();

// An option, used for parsing, help and completion.
struct Flag {
  std::string name;  // name without dashes
  // Rest of the name in help texts: "=FILE", "[=DEVICE]" if the value may be omitted, or "" for a switch.
  std::string value;
  std::string help;
  bool has_value() const { return value.starts_with('='); }
};
const std::vector<Flag>& flags();

// Defined in help_overview.cpp: the overview, which fits on one screen, and the list of all commands with all
// options.
std::string help();
std::string help_all();
// Defined in help.cpp. help(command) describes the command. If the command has no verb, it describes the
// noun; if there is no noun either, it returns the overview.
std::string full_name(const Form& form);   // returns for example "client session list"
std::string help_entry(const Form& form);  // the command with its arguments and its description
std::string help(const Command& command);
std::vector<std::string> examples_of(const Form& form);  // examples without the program name

}  // namespace rtrs::admin
