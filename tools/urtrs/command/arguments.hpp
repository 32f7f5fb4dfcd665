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
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/mapping/credentials.hpp"

namespace rtrs::admin {

// Units of sizes; each is 1,024 times the previous one.
inline constexpr std::string_view kUnits = "BKMGTPE";

enum class Format { table, json, csv };

// Options of `map`.
struct MapOptions {
  std::string run;      // shell command; empty: none
  std::string nbd;      // "auto", or the NBD device of the kernel to use; empty: none
  std::string port;     // port of the server
  std::string session;  // session name on this host and at the server; empty: a default
  std::string fabric;
  mapping::Credentials credentials;
  bool idempotent = false;  // succeed if the device is already mapped
  unsigned nbd_wait = 0;    // seconds that IO waits for an nbdkit that ended; 0: not given
  bool operator==(const MapOptions&) const = default;
};

// Options of `doctor --rdma`.
struct RdmaOptions {
  bool wanted = false;   // --rdma
  bool listens = false;  // wait for a peer
  std::string device;    // empty: all devices
  std::uint64_t rounds =
      0;  // rounds of the test of data before an immediate; 0: as many as fit into a few seconds
  bool operator==(const RdmaOptions&) const = default;
};

struct Options {
  Format format = Format::table;
  std::size_t width = 0;  // maximum table width in columns, if the user chose no fields; 0: unlimited
  unsigned formats = 0;   // number of formats requested
  std::string socket;     // empty: the only daemon of this host
  std::vector<std::string> fields;  // "name", "+name", "-name", "all"; empty: default fields
  char unit = '\0';                 // one of kUnits; 0: chosen for each value
  bool headers = true;
  bool tree = true;
  bool totals = true;
  bool help = false;
  bool help_all = false;  // print the help of all commands
  double interval = 1;    // seconds; for `top`
  unsigned count = 0;     // for `top` and `monitor`: updates or events to print; 0: until a signal
  MapOptions map;
  RdmaOptions rdma;
};

struct Command {
  // "session", "path", "device", "export", "mapping", "reason" or "key"; empty if the verb needs none. For
  // clients "client session" and so on, or "client".
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

// `words`: arguments without the program name.
tl::expected<Command, Mistake> parse(const std::vector<std::string>& words);

// Syntax of a command, for help and completion.
struct Form {
  const char* noun;
  const char* verb;
  const char* arguments;  // for example "SESSION [PATH]"
  unsigned least;         // minimum number of arguments
  unsigned most;
  const char* what;
};
const std::vector<Form>& forms();
// Nouns of `side`: "" for the server, "client" for clients.
std::vector<std::string> nouns(const std::string& side = {});
// Noun as in Command::noun: `word`, prefixed with `side` if that is not empty.
std::string noun_of(const std::string& side, const std::string& word);
bool is_client(const std::string& noun);
std::vector<std::string> verbs(const std::string& noun);  // empty `noun`: verbs without a noun
// Candidate that equals `word`, whose plural is `word`, or of which `word` is an unambiguous prefix; empty:
// none.
std::string meant(const std::string& word, const std::vector<std::string>& candidates);
const std::vector<std::string>& log_levels();
// Credential options of `map`, such as "tls-keys".
const std::vector<std::string>& credential_options();

// In help_overview.cpp: overview on one screen, and the list of all commands with all options.
std::string help();
std::string help_all();
// In help.cpp. help(command) describes the command; without a verb, the noun; without a noun too, it is the
// overview.
std::string full_name(const Form& form);   // for example "client session list"
std::string help_entry(const Form& form);  // form with its arguments and description
std::string help(const Command& command);
std::vector<std::string> examples_of(const Form& form);  // without the program name

}  // namespace rtrs::admin
