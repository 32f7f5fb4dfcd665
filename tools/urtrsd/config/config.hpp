// Configuration of urtrsd: a TOML file, overridden by flags.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/fabric/auth_choice.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/lib/control/fabric/tls_choice.hpp"
#include "tools/urtrsd/storage/catalog.hpp"

namespace rtrs::daemon {

// config_values.cpp has the range and meaning of each setting, for checks, messages and --help.
struct DaemonConfig : options::FabricOptions {
  std::vector<std::string> listen{"127.0.0.1"};  // numeric addresses and host names
  std::uint16_t port = 1234;
  // Queue depth, chunk size, limits of sessions, extensions and heartbeat. max_host_sessions 0: all but an
  // eighth of max_sessions. protocol_config() (daemon.cpp) adds the rest.
  ServerConfig protocol;
  std::string allow_addresses;  // lists of AccessRules
  std::string allow_identities;
  std::string allow_sessions;
  std::optional<bool> always_invalidate;  // unset: on only where it protects memory (docs/security.md)
  // Ignores NEED_INVAL. Kernel clients before 6.12 then hang (protocol section 5.6).
  bool assume_kernel_6_12_clients = false;
  std::string dev_search_path;  // empty: only `exports` can be opened
  bool strict = false;          // fail at start if anything is missing
  std::uint32_t connection_memory_mb = 1024;
  std::string trace;                      // file; empty: the ring in memory only
  std::string trace_detail = "machines";  // name of a trace::Detail
  std::uint64_t trace_size = 0;           // bytes at which a file is rotated; 0: one file of unlimited size
  std::uint32_t trace_files = 4;          // number of files kept by rotation
  std::string trace_dump;                 // file for a dump of the ring after an error; empty: none
  std::string log_level = "info";
  std::string log_format = "text";       // name of a LogFormat
  std::string control = "auto";          // socket for urtrs; "auto": in the run-time directory; empty: none
  std::string metrics;                   // "ADDRESS:PORT" or path of a unix socket; empty: not served
  std::string control_group;             // group that may use the control socket; empty: group of the process
  Nanos shutdown_timeout = seconds(30);  // kNever: no limit
  Nanos nbd_wait = seconds(30);          // 0: IO fails at once
  Nanos poll = 20'000;
  bool busy_poll = false;
  std::vector<ExportSpec> exports;
  bool operator==(const DaemonConfig&) const = default;
};

// One configuration error. `origin` is "FILE:LINE:COLUMN", a file, or a flag.
struct ConfigProblem {
  std::string origin;
  std::string message;
  std::string hint;  // may be empty
};
std::string to_string(const ConfigProblem& problem);  // "origin: message; hint"

// Reads a configuration from several sources and collects all errors instead of stopping at the first.
class ConfigReader {
 public:
  // `text` is the content of the file `file_name`.
  void read_toml(std::string_view text, const std::string& file_name);
  void read_file(const std::string& path);
  // Relations between settings (protocol section 1.3: log2up(queue depth) + log2up(chunk size) <= 28;
  // something to export). Call it last.
  void check_relations();

  // Sets a scalar setting, or appends an element to a list, from the command line.
  // `key` may be one of older_keys().
  void set_from_flag(const std::string& flag, const std::string& key, const std::string& value);
  // NAME=SOURCE[,ro][,force][,delay_ms=N]; ",," stands for a comma of SOURCE. A name may be given once as a
  // flag, and then replaces an export of that name in the file.
  void add_export_flag(const std::string& value);
  // Reads environment variables: URTRS_PORT for port, URTRS_LISTEN with commas. `value_of` returns null for
  // an unset variable.
  void read_environment(const std::function<const char*(const char*)>& value_of);
  void clear_listen() { config_.listen.clear(); }
  void add_listen(const std::string& origin, const std::string& address);
  void report(std::string origin, std::string message, std::string hint = {});

  const DaemonConfig& config() const { return config_; }
  const std::vector<ConfigProblem>& problems() const { return problems_; }
  // Source of each value, by key; "export NAME" for an export. Keys that are absent have their default.
  using Origins = std::map<std::string, std::string, std::less<>>;
  const Origins& origins() const { return origins_; }

 private:
  friend class TomlWalker;
  // Returns an empty string after storing the value, or the expected values in words.
  std::string store(const std::string& origin, std::string_view key, std::string value);
  void add_export(const std::string& origin, ExportSpec spec, bool replace);
  void check_identities(const std::vector<std::string>& listed);
  void check_access();
  bool export_option(ExportSpec& spec, const std::string& option);  // false after reporting an error
  DaemonConfig config_;
  std::vector<ConfigProblem> problems_;
  Origins origins_;
  std::set<std::string> flag_exports_;  // names given by --export
};

// TOML that reads back as the same configuration. With `origins`, each value has a comment with its source.
std::string print_config(const DaemonConfig& config, const ConfigReader::Origins* origins = nullptr);

// Fabric options of the configuration, without a log.
tools::FabricChoice fabric_choice(const DaemonConfig&);
// Error text about a setting that the chosen fabric does not support; empty if there is none.
std::string setting_of_another_fabric(const DaemonConfig&);
// authenticates_clients(): clients may authenticate. requires_tls(): connections must use TLS.
bool authenticates_clients(const DaemonConfig&);
bool requires_tls(const DaemonConfig&);
// Access rules of a configuration without errors.
AccessRules access_of(const DaemonConfig&);

// Keys of the settings in which two configurations differ, except exports.
std::vector<std::string> different_settings(const DaemonConfig& a, const DaemonConfig& b);

// Parses an export in the form of the flag --export.
tl::expected<ExportSpec, std::string> parse_export(const std::string& text);

// Result of parsing the command line of urtrsd.
struct CommandLine {
  std::optional<DaemonConfig> run;  // if set, start with this; otherwise exit with exit_code
  int exit_code = 0;   // 0 ok, 2 usage or bad configuration, 3 a configured device cannot be opened
  std::string output;  // for stdout
  std::string errors;  // for stderr
};

// Result of trying a start on this host: problems as messages.
struct StartTrial {
  std::vector<std::string> errors;  // reasons why urtrsd would not start
  std::vector<std::string> warnings;
  std::string engine;  // "io_uring" or "threads"
};
using TryStart = std::function<StartTrial(const DaemonConfig&)>;

// `arguments`: without the program name. `environment`: replaces std::getenv(). Reads files and changes
// nothing. `try_start`: used by --check-config; null: the host is not checked.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const std::function<const char*(const char*)>& environment = std::getenv,
                               const TryStart& try_start = nullptr);

}  // namespace rtrs::daemon
