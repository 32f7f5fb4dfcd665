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

#include "backends/options/process.hpp"
#include "tools/lib/control/fabric/auth_choice.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"
#include "tools/lib/control/fabric/tls_choice.hpp"
#include "tools/urtrsd/storage/catalog.hpp"

namespace rtrs::daemon {

// Values of all settings. config_values.cpp has the range and meaning of each setting, for checks, messages
// and --help.
struct DaemonConfig : options::FabricOptions, options::ProcessOptions {
  std::vector<std::string> listen{"127.0.0.1"};  // numeric addresses and host names
  std::uint16_t port = 1234;
  // Queue depth, chunk size, session limits, extensions and heartbeat. If max_host_sessions is 0, one host
  // may use seven eighths of max_sessions. protocol_config() (daemon.cpp) sets the other members.
  ServerConfig protocol;
  std::string allow_addresses;  // this and the next two members are lists in the format of AccessRules
  std::string allow_identities;
  std::string allow_sessions;
  std::optional<bool> always_invalidate;  // unset: on only where it protects memory (docs/security.md)
  // Ignores the flag NEED_INVAL of clients. Kernel clients before 6.12 then hang (protocol section 5.6).
  bool assume_kernel_6_12_clients = false;
  std::string dev_search_path;  // empty: only `exports` can be opened
  bool strict = false;          // exit at start if a configured item is missing
  std::uint32_t connection_memory_mb = 1024;
  std::string log_level = "info";
  std::string log_format = "text";       // name of a LogFormat
  std::string metrics;                   // "ADDRESS:PORT" or path of a unix socket; empty: not served
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
std::string to_string(const ConfigProblem& problem);  // returns "origin: message; hint"

// Reads a configuration from several sources and collects all errors instead of stopping at the first.
class ConfigReader {
 public:
  // `text` is the content of the file `file_name`.
  void read_toml(std::string_view text, const std::string& file_name);
  void read_file(const std::string& path);
  // Checks relations between settings: log2up(queue depth) + log2up(chunk size) <= 28 (protocol section 1.3),
  // and there must be something to export. Call it last.
  void check_relations();

  // Sets a scalar setting, or appends an element to a list, from the command line.
  // `key` may be one of older_keys().
  void set_from_flag(const std::string& flag, const std::string& key, const std::string& value);
  // Adds an export from NAME=SOURCE[,ro][,force][,delay_ms=N]; ",," stands for a comma in SOURCE. A name may
  // be given in only one flag; the flag replaces an export with that name in the file.
  void add_export_flag(const std::string& value);
  // Reads environment variables: URTRS_PORT sets the port, and URTRS_LISTEN is a comma-separated list of
  // addresses. `value_of` returns null for an unset variable.
  void read_environment(const std::function<const char*(const char*)>& value_of);
  void clear_listen() { config_.listen.clear(); }
  void add_listen(const std::string& origin, const std::string& address);
  void report(std::string origin, std::string message, std::string hint = {});

  const DaemonConfig& config() const { return config_; }
  const std::vector<ConfigProblem>& problems() const { return problems_; }
  // Source of each value, such as a flag or a line of the file, by key; "export NAME" is the key of an
  // export. Keys that are absent have their default value.
  using Origins = std::map<std::string, std::string, std::less<>>;
  const Origins& origins() const { return origins_; }

 private:
  friend class TomlWalker;
  // Stores the value and returns an empty string. If the value is wrong, returns a description of the
  // expected values.
  std::string store(const std::string& origin, std::string_view key, std::string value);
  void add_export(const std::string& origin, ExportSpec spec, bool replace);
  void check_identities(const std::vector<std::string>& listed);
  void check_access();
  // Returns false after it has reported an error.
  bool export_option(ExportSpec& spec, const std::string& option);
  DaemonConfig config_;
  std::vector<ConfigProblem> problems_;
  Origins origins_;
  std::set<std::string> flag_exports_;  // names given by --export
};

// Returns the configuration as TOML, which can be read back. With `origins`, each value has a comment with
// its source.
std::string print_config(const DaemonConfig& config, const ConfigReader::Origins* origins = nullptr);

// Returns the fabric options of the configuration. The log function is not set.
tools::FabricChoice fabric_choice(const DaemonConfig&);
// Returns an error text if a setting is not supported by the chosen fabric, otherwise an empty string.
std::string setting_of_another_fabric(const DaemonConfig&);
// authenticates_clients() is true if clients may authenticate, requires_tls() if connections must use TLS.
bool authenticates_clients(const DaemonConfig&);
bool requires_tls(const DaemonConfig&);
// Access rules of a configuration without errors.
AccessRules access_of(const DaemonConfig&);

// Returns the keys of the settings in which two configurations differ. Exports are not compared.
std::vector<std::string> different_settings(const DaemonConfig& a, const DaemonConfig& b);

// Parses an export in the form of the flag --export.
tl::expected<ExportSpec, std::string> parse_export(const std::string& text);

// Result of parsing the command line of urtrsd.
struct CommandLine {
  std::optional<DaemonConfig> run;  // if set, start with this; otherwise exit with exit_code
  int exit_code = 0;   // 0 ok, 2 usage or bad configuration, 3 a configured device cannot be opened
  std::string output;  // text for standard output
  std::string errors;  // text for standard error
};

// Result of testing whether urtrsd could start on this host now. The members are messages for the user.
struct StartTrial {
  std::vector<std::string> errors;  // reasons why urtrsd would not start
  std::vector<std::string> warnings;
  std::string engine;  // "io_uring" or "threads"
};
using TryStart = std::function<StartTrial(const DaemonConfig&)>;

// Reads the configuration files but changes nothing. `arguments` does not include the program name.
// `environment` replaces std::getenv(). `try_start` is used by --check-config; if it is null, the host is not
// checked.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const std::function<const char*(const char*)>& environment = std::getenv,
                               const TryStart& try_start = nullptr);

}  // namespace rtrs::daemon
