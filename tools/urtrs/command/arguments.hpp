// The command line of urtrs: the nouns, verbs and bare words of the command `rnbd` of its makers, and options
// with dashes for the same.
//
//   urtrs [server] [session|path|device|export|mapping|reason|key] COMMAND [ARGUMENT...] [WORD|--OPTION...]
//   urtrs client [session|path|device] COMMAND [ARGUMENT...] [WORD|--OPTION...]
//
// Plurals, singulars and unambiguous beginnings of a word are the word. A noun may be left out where the
// command has only one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/mapping/credentials.hpp"

namespace rtrs::admin {

// Of bytes: each 1,024 of the one before.
inline constexpr std::string_view kUnits = "BKMGTPE";

enum class Format { table, json, csv };

// Of `map`.
struct MapOptions {
  std::string run;      // command of a shell; empty: none
  std::string nbd;      // "auto", or the device of the kernel to attach to; empty: none
  std::string port;     // of the server
  std::string session;  // name on this host and at the server; empty: a default
  std::string fabric;
  mapping::Credentials credentials;
  bool idempotent = false;  // it is no mistake that the device is mapped already
  unsigned nbd_wait = 0;    // seconds that IO waits for an nbdkit that died; 0: not given
  bool operator==(const MapOptions&) const = default;
};

// Of `doctor`.
struct RdmaOptions {
  bool wanted = false;       // --rdma
  bool listens = false;      // for a peer
  std::string device;        // empty: every one
  std::uint64_t rounds = 0;  // of data in front of an immediate; 0: what a few seconds have room for
  bool operator==(const RdmaOptions&) const = default;
};

struct Options {
  Format format = Format::table;
  std::size_t width = 0;            // columns that a table may have, where the user chose no fields; 0: any
  unsigned formats = 0;             // how many were asked for
  std::string socket;               // empty: the one daemon of this host
  std::vector<std::string> fields;  // "name", "+name", "-name", "all"; empty: those that the table has
  char unit = '\0';                 // of B K M G T P E; 0: what reads best
  bool headers = true;
  bool tree = true;
  bool totals = true;
  bool help = false;
  bool help_all = false;  // with `help`
  double interval = 1;    // seconds, of `top`
  unsigned count = 0;     // of `top` and `monitor`; 0: until a signal comes
  MapOptions map;
  RdmaOptions rdma;
};

struct Command {
  // "session", "path", "device", "export", "mapping", "reason", "key"; empty where the verb needs none. Of
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

// `words` without the name of the program.
tl::expected<Command, Mistake> parse(const std::vector<std::string>& words);

// What the command takes, for its help and for completion.
struct Form {
  const char* noun;
  const char* verb;
  const char* arguments;  // "SESSION [PATH]"
  unsigned least;         // arguments
  unsigned most;
  const char* what;
};
const std::vector<Form>& forms();
// Those of `side`: "" of the server, "client" of clients.
std::vector<std::string> nouns(const std::string& side = {});
// Of `noun` as in Command, of a side where that has no other.
std::string noun_of(const std::string& side, const std::string& word);
bool is_client(const std::string& noun);
std::vector<std::string> verbs(const std::string& noun);  // empty: those that need none
// The candidate that `word` is, is the plural of, or alone begins with; empty: none.
std::string meant(const std::string& word, const std::vector<std::string>& candidates);
const std::vector<std::string>& log_levels();
// "tls-keys" and so on, of `map`.
const std::vector<std::string>& credential_options();

// In help_overview.cpp: the groups of commands on a screen, and every command with every option.
std::string help();
std::string help_all();
// In help.cpp. Of a noun where the command has no verb; of everything where it has neither.
std::string full_name(const Form& form);   // "client session list"
std::string help_entry(const Form& form);  // with its arguments and what it does
std::string help(const Command& command);
std::vector<std::string> examples_of(const Form& form);  // without the name of the program

}  // namespace rtrs::admin
