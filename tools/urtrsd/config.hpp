// The configuration of urtrsd: a TOML file, and flags that override it.
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

#include "tools/lib/fabric/auth_choice.hpp"
#include "tools/lib/fabric/open_fabric.hpp"
#include "tools/lib/fabric/tls_choice.hpp"
#include "tools/urtrsd/catalog.hpp"

namespace rtrs::daemon {

// Ranges and meanings are in config_values.cpp, from which --help, the checks and the messages are made.
struct DaemonConfig {
  std::vector<std::string> listen{"127.0.0.1"};  // addresses in figures, and host names
  std::uint32_t port = 1234;
  std::string fabric = "tcp";
  std::string provider = "tcp";
  bool crc = false;
  std::string tls;  // one of tools::tls_modes(), or empty: require where keys or certificates are given
  std::string tls_keys;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  std::string tls_crl;
  bool tls_kernel = false;
  std::string auth;  // one of tools::auth_modes(), or empty: require where keys are given
  std::string auth_keys;
  std::string allow_addresses;  // lists of AccessRules
  std::string allow_identities;
  std::string allow_sessions;
  std::string rdma_device;  // empty: whichever has the address
  std::uint32_t rdma_retry_count = 6;
  std::uint32_t rdma_ack_timeout = 0;  // 0: as connecting agrees
  std::uint32_t rdma_tos = 0;          // 0: as the host says
  bool rdma_relaxed_ordering = false;
  bool rdma_thread_domains = false;
  std::string rdma_post = "send";
  std::string rdma_invalidation = "auto";
  std::uint32_t sess_queue_depth = 512;
  std::uint32_t max_chunk_size = 131072;
  std::optional<bool> always_invalidate;  // unset: where it protects (docs/security.md)
  // Does not honour NEED_INVAL. Kernel clients before 6.12 hang then (protocol section 5.6).
  bool assume_kernel_6_12_clients = false;
  bool extensions = true;
  std::string dev_search_path;  // empty: only `exports` can be opened
  bool strict = false;          // ends at the start if anything is missing
  std::uint32_t heartbeat_interval_ms = 5000;
  std::uint32_t heartbeat_missed_max = 5;
  std::uint32_t max_sessions = 64;
  std::uint32_t max_host_sessions = 0;  // 0: all but an eighth of max_sessions
  std::uint32_t max_half_open = 0;      // 0: half of max_sessions
  std::uint32_t connection_memory_mb = 1024;
  std::string trace;                      // file; empty: the ring in memory only
  std::string trace_detail = "machines";  // trace::Detail
  std::uint32_t trace_size_mb = 0;        // a file of this size is rotated; 0: one file without bound
  std::uint32_t trace_files = 4;          // kept when rotated
  std::string trace_dump;                 // file for the ring when something goes wrong; empty: none
  std::string log_level = "info";
  std::string log_format = "text";        // LogFormat
  std::string control = "auto";           // socket for urtrs; "auto": below the run-time folder; empty: none
  std::string metrics;                    // "ADDRESS:PORT" or path of a unix socket; empty: not served
  std::string control_group;              // that may use it; empty: that of the process
  std::uint32_t shutdown_timeout_s = 30;  // 0: no bound
  std::uint32_t nbd_wait_s = 30;          // 0: IO fails at once
  std::uint32_t poll_us = 20;
  bool busy_poll = false;
  std::vector<ExportSpec> exports;
  bool operator==(const DaemonConfig&) const = default;
};

// One mistake. `origin` is "FILE:LINE:COLUMN", a file, or a flag.
struct ConfigProblem {
  std::string origin;
  std::string message;
  std::string hint;  // may be empty
};
std::string to_string(const ConfigProblem& problem);  // "origin: message; hint"

// Reads a configuration piece by piece; collects every mistake instead of stopping at the first.
class ConfigReader {
 public:
  // `text` is the content of the file called `file_name`.
  void read_toml(std::string_view text, const std::string& file_name);
  void read_file(const std::string& path);
  // Relations between settings (protocol section 1.3: log2up(queue depth) + log2up(chunk size) <= 28;
  // something to export). Call it last.
  void check_relations();

  // The value of a scalar setting or of one more element of a list, as written on the command line.
  void set_from_flag(const std::string& flag, const std::string& key, const std::string& value);
  // NAME=SOURCE[,ro][,force][,delay_ms=N]; ",," stands for a comma of SOURCE. A name may be given once as a
  // flag, and then replaces an export of that name in the file.
  void add_export_flag(const std::string& value);
  // Variables of the environment: URTRS_PORT for port, URTRS_HEARTBEAT_INTERVAL_MS for heartbeat.interval_ms,
  // URTRS_LISTEN with commas. `value_of` answers null for those that are not set.
  void read_environment(const std::function<const char*(const char*)>& value_of);
  void clear_listen() { config_.listen.clear(); }
  void add_listen(const std::string& origin, const std::string& address);
  void report(std::string origin, std::string message, std::string hint = {});

  const DaemonConfig& config() const { return config_; }
  const std::vector<ConfigProblem>& problems() const { return problems_; }
  // Where each value comes from, by key; "export NAME" for an export. What is not there has its default.
  using Origins = std::map<std::string, std::string, std::less<>>;
  const Origins& origins() const { return origins_; }

 private:
  friend class TomlWalker;
  void add_export(const std::string& origin, ExportSpec spec, bool replace);
  void check_identities(const std::vector<std::string>& listed);
  void check_access();
  bool export_option(ExportSpec& spec, const std::string& option);  // false: reported
  DaemonConfig config_;
  std::vector<ConfigProblem> problems_;
  Origins origins_;
  std::set<std::string> flag_exports_;  // names given by --export
};

// TOML that reads back as the same configuration. With `origins`, each value has a comment that says where it
// comes from.
std::string print_config(const DaemonConfig& config, const ConfigReader::Origins* origins = nullptr);

tools::TlsChoice tls_of(const DaemonConfig&);
tools::AuthChoice auth_of(const DaemonConfig&);
// Without a log.
tools::FabricChoice fabric_choice(const DaemonConfig&);
// A sentence about a setting that the chosen fabric does not have; empty: there is none.
std::string setting_of_another_fabric(const DaemonConfig&);
// Clients may show who they are; and they have to.
bool asks_who(const DaemonConfig&);
bool requires_tls(const DaemonConfig&);
// Of a configuration without problems.
AccessRules access_of(const DaemonConfig&);

// The settings in which two configurations differ, but for exports, as their keys.
std::vector<std::string> different_settings(const DaemonConfig& a, const DaemonConfig& b);

// One export as the flag --export takes it. The error says what is wrong with it.
tl::expected<ExportSpec, std::string> parse_export(const std::string& text);

// What the command line of urtrsd asks for.
struct CommandLine {
  std::optional<DaemonConfig> run;  // set: start with this; else leave with exit_code
  int exit_code = 0;   // 0 ok, 2 usage or bad configuration, 3 a configured device cannot be opened
  std::string output;  // for stdout
  std::string errors;  // for stderr
};

// Problems that a start would meet on this host, as sentences.
struct StartTrial {
  std::vector<std::string> errors;  // urtrsd would not start
  std::vector<std::string> warnings;
  std::string engine;  // "io_uring" or "threads"
};
using TryStart = std::function<StartTrial(const DaemonConfig&)>;

// `arguments` without the program's name; `environment`: as std::getenv(). Reads files, changes nothing.
// `try_start`: for --check-config; null: the host is not tried.
CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const std::function<const char*(const char*)>& environment = std::getenv,
                               const TryStart& try_start = nullptr);

}  // namespace rtrs::daemon
