#include "tools/urtrsd/config/config_values.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "backends/platform/address/path_syntax.hpp"
#include "core/proto/limits.hpp"
#include "core/record/format.hpp"
#include "tools/urtrsd/config/config_text.hpp"

namespace rtrs::daemon {
namespace {

std::vector<Setting> make_settings() {
  using C = DaemonConfig;
  return {
      {"port", "port,p", "port of every listen address; 0: any free one", IntegerRule{&C::port, 0, 65535}},
      {"fabric", "fabric", "fabric backend", TextRule{&C::fabric, {"tcp", "libfabric", "verbs"}}},
      {"provider", "provider", "provider of libfabric", TextRule{&C::provider}},
      {"crc", "crc", "fabric tcp: a checksum (CRC-32C) behind each frame, also for clients that ask for none",
       BooleanRule{&C::crc}},
      {"rdma_device", "rdma-device", "device of the verbs fabric; unset: whichever has the address",
       TextRule{&C::rdma_device}},
      {"rdma_retry_count", "rdma-retry-count",
       "how often verbs sends a packet again before its path is lost; 7: for ever on soft-RoCE",
       IntegerRule{&C::rdma_retry_count, 0, 7}},
      {"rdma_ack_timeout", "rdma-ack-timeout",
       "when verbs sends a packet again: after 4.096 us x 2^N; 0: as connecting agrees, mostly 17 (0.5 s)",
       IntegerRule{&C::rdma_ack_timeout, 0, 31}},
      {"rdma_tos", "rdma-tos", "type of service of what verbs sends (DSCP x 4); 0: as the client says",
       IntegerRule{&C::rdma_tos, 0, 255}},
      {"rdma_relaxed_ordering", "rdma-relaxed-ordering",
       "verbs: the device may write to memory in any order before its completion; faster on some hosts",
       BooleanRule{&C::rdma_relaxed_ordering}},
      {"rdma_thread_domains", "rdma-thread-domains", "verbs: no locks where the device has thread domains",
       BooleanRule{&C::rdma_thread_domains}},
      {"rdma_post", "rdma-post",
       "verbs: wr and auto post by ibv_wr_*() where the library of the device has it, else by "
       "ibv_post_send(); wr warns then",
       TextRule{&C::rdma_post, {"auto", "wr", "send"}}},
      {"rdma_invalidation", "rdma-invalidation", "how verbs takes a key back for always_invalidate",
       TextRule{&C::rdma_invalidation, {"auto", "windows", "registration"}}},
      {"sess_queue_depth", "sess-queue-depth,queue-depth,q", "IOs in flight in one session",
       IntegerRule{&C::sess_queue_depth, 1, kMaxPermits}},
      {"max_chunk_size", "max-chunk-size", "bytes of the buffer of one IO; the largest IO is 4096 less",
       IntegerRule{&C::max_chunk_size, 8192, 1U << 28, true}},
      {"always_invalidate", "always-invalidate", "give every IO a fresh remote key",
       OptionalBooleanRule{&C::always_invalidate, "where it protects"}},
      {"assume_kernel_6_12_clients", "assume-kernel-6-12-clients",
       "every kernel client is 6.12 or newer: leave the keys of READs to them, which saves a message a READ. "
       "With an older client every READ hangs, and so does its map_device",
       BooleanRule{&C::assume_kernel_6_12_clients}},
      {"extensions", "extensions",
       "grant clients that offer them the fence, generations, the probe, data_with_answer and, on "
       "soft-RoCE, keys_stay",
       BooleanRule{&C::extensions}},
      {"dev_search_path", "dev-search-path",
       "directory peers may open devices in, %SESSNAME% stands for the session; nothing outside it can be "
       "opened",
       TextRule{&C::dev_search_path}},
      {"strict", "strict",
       "end with code 3 if an export, dev_search_path, a listen address or the address of metrics is missing "
       "at the start, and let a reload add no export that cannot be opened; otherwise urtrsd serves the "
       "rest, "
       "and tries the missing ones again after 1 s, 2 s, 4 s and so on, later once a minute",
       BooleanRule{&C::strict}},
      {"heartbeat.interval_ms", "heartbeat-interval-ms", "time between two heartbeat checks",
       IntegerRule{&C::heartbeat_interval_ms, 10, 3600000}},
      {"heartbeat.missed_max", "heartbeat-missed-max", "silent checks before a peer counts as dead",
       IntegerRule{&C::heartbeat_missed_max, 1, 1000}},
  };
}

std::vector<Setting> make_administration() {
  using C = DaemonConfig;
  return {
      {"trace", "trace", "file that records every input", TextRule{&C::trace, {}, true}},
      {"trace_detail", "trace-detail",
       "what else the file has: what went over the wire, and user data with it",
       TextRule{&C::trace_detail, {"machines", "wire", "payload"}}},
      {"trace_size_mb", "trace-size-mb", "MiB after which the next file is begun; 0: never",
       IntegerRule{&C::trace_size_mb, 0, 1U << 20}},
      {"trace_files", "trace-files", "files that are kept then: FILE, FILE.1, FILE.2 ...",
       IntegerRule{&C::trace_files, 1, 1000}},
      {"trace_dump", "trace-dump",
       "file for the last records when a path is lost by an error, and on SIGUSR1",
       TextRule{&C::trace_dump, {}, true}},
      {"poll_us", "poll-us",
       "microseconds to go on asking for news before sleeping, while that finds some; 0: sleep at once",
       IntegerRule{&C::poll_us, 0, 1000000}},
      {"busy_poll", "busy-poll", "never sleep: lowest latency, one core always busy",
       BooleanRule{&C::busy_poll}},
      {"log_level", "log-level", "least severe message to log",
       TextRule{&C::log_level, {"trace", "debug", "info", "warn", "error"}}},
      {"log_format", "log-format",
       "json: each line of the log is an object, with the fields of management.md",
       TextRule{&C::log_format, {"text", "json"}}},
      {"control", "control",
       "socket on which the command urtrs reaches urtrsd; auto: urtrsd-PID.sock in the run-time folder; "
       "empty: none",
       TextRule{&C::control, {}, true}},
      {"metrics", "metrics",
       "ADDRESS:PORT or unix socket to serve /metrics at for Prometheus; unset: nowhere",
       TextRule{&C::metrics}},
      {"control_group", "control-group", "group that may use the control socket; unset: that of urtrsd",
       TextRule{&C::control_group}},
      {"shutdown_timeout_s", "shutdown-timeout-s",
       "seconds after SIGTERM or SIGINT in which storage may end what is under way; then urtrsd leaves "
       "without it. 0: no bound",
       IntegerRule{&C::shutdown_timeout_s, 0, 86400}},
      {"nbd_wait_s", "nbd-wait-s",
       "seconds for which IO waits for the NBD server of an export that was lost, before it fails; 0: it "
       "fails "
       "at once",
       IntegerRule{&C::nbd_wait_s, 0, 86400}},
  };
}

// Keys, certificates and authentication. A reload reads these again.
std::vector<Setting> make_tls() {
  using C = DaemonConfig;
  return {
      {"tls", "tls",
       "TLS 1.3 on the fabric tcp: require it of every client, allow clients without it too, or off; unset: "
       "require where keys or certificates are given, else off",
       TextRule{&C::tls, tools::tls_modes()}},
      {"tls_keys", "tls-keys",
       "file of pre-shared keys, IDENTITY:HEX a line, which other users may not read; urtrs key new makes "
       "them",
       TextRule{&C::tls_keys}},
      {"tls_cert", "tls-cert", "file of the server's certificate, PEM, with those between it and its CA",
       TextRule{&C::tls_cert}},
      {"tls_key", "tls-key", "file of its private key, PEM, which other users may not read",
       TextRule{&C::tls_key}},
      {"tls_ca", "tls-ca",
       "file of the CA that signs the certificates of clients, PEM; a client is known by the common name of "
       "its certificate",
       TextRule{&C::tls_ca}},
      {"tls_crl", "tls-crl", "file of the certificates that this CA took back, PEM; unset: none",
       TextRule{&C::tls_crl}},
      {"auth", "auth",
       "proof of a shared key on the fabrics verbs and libfabric: require it of every client, allow clients "
       "that offer none too (those of the kernel), or off; unset: require where auth_keys is given, else off",
       TextRule{&C::auth, tools::auth_modes()}},
      {"auth_keys", "auth-keys",
       "file of these keys, IDENTITY:HEX a line, which other users may not read; urtrs key new makes them. "
       "They say who connects, and encrypt nothing",
       TextRule{&C::auth_keys}},
      {"allow_addresses", "allow-addresses",
       "addresses and ranges (10.0.0.0/8) from which clients may come, with commas; unset: from everywhere",
       TextRule{&C::allow_addresses}},
      {"allow_identities", "allow-identities",
       "identities of keys and certificates that may come in, with commas; unset: all of them",
       TextRule{&C::allow_identities}},
      {"allow_sessions", "allow-sessions",
       "session names that clients may take, with commas, %IDENTITY% in front and * behind; unset: any",
       TextRule{&C::allow_sessions}},
      {"tls_kernel", "tls-kernel", "leave the sealing of what is sent to the kernel where it can",
       BooleanRule{&C::tls_kernel}},
  };
}

std::vector<Setting> make_limits() {
  using C = DaemonConfig;
  return {
      {"max_sessions", "max-sessions", "sessions at one time",
       IntegerRule{&C::max_sessions, 1, kMaxSessions}},
      {"max_host_sessions", "max-host-sessions",
       "sessions of one client address (IPv6: of its first 64 bits), each with sess_queue_depth x "
       "max_chunk_size bytes; 0: all but an eighth of max_sessions",
       IntegerRule{&C::max_host_sessions, 0, kMaxSessions}},
      {"max_half_open", "max-half-open",
       "sessions of one client address that are not complete yet; beyond it the oldest of them is closed; 0: "
       "half of max_sessions",
       IntegerRule{&C::max_half_open, 0, kMaxSessions}},
      {"connection_memory_mb", "connection-memory-mb",
       "MiB for the queues of all connections of the tcp fabric together; one client address may take all "
       "but an eighth of what the others leave",
       IntegerRule{&C::connection_memory_mb, 16, 1U << 20}},
  };
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string expected_integer(const IntegerRule& rule) {
  return (rule.power_of_two ? "power of two " : "integer ") + std::to_string(rule.min) + ".." +
         std::to_string(rule.max);
}

}  // namespace

tools::TlsChoice tls_of(const DaemonConfig& config) {
  tools::TlsChoice choice;
  choice.mode = config.tls;
  choice.credentials.keys = config.tls_keys;
  choice.credentials.cert = config.tls_cert;
  choice.credentials.key = config.tls_key;
  choice.credentials.ca = config.tls_ca;
  choice.credentials.crl = config.tls_crl;
  choice.credentials.kernel = config.tls_kernel;
  return choice;
}

tools::AuthChoice auth_of(const DaemonConfig& config) {
  tools::AuthChoice choice;
  choice.mode = config.auth;
  choice.keys = config.auth_keys;
  return choice;
}

bool authenticates_clients(const DaemonConfig& config) {
  const auto tls = tls_of(config);
  return config.fabric == "tcp" ? tls.mode != "off" && tls.credentials.any()
                                : config.auth != "off" && !config.auth_keys.empty();
}

bool requires_tls(const DaemonConfig& config) {
  const auto tls = tls_of(config);
  return config.fabric == "tcp" && (tls.mode == "require" || (tls.mode.empty() && tls.credentials.any()));
}

AccessRules access_of(const DaemonConfig& config) {
  return parse_access(config.allow_addresses, config.allow_identities, config.allow_sessions)
      .value_or(AccessRules{});
}

std::string to_string(const ConfigProblem& problem) {
  return (problem.origin.empty() ? "" : problem.origin + ": ") + problem.message +
         (problem.hint.empty() ? "" : "; " + problem.hint);
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> both = make_settings();
    for (auto& more : {make_tls(), make_administration(), make_limits()})
      both.insert(both.end(), more.begin(), more.end());
    return both;
  }();
  return all;
}

const Setting* find_setting(std::string_view key) {
  for (const Setting& setting : settings())
    if (setting.key == key) return &setting;
  return nullptr;
}

std::string expected(const Setting& setting) {
  if (const auto* integer = std::get_if<IntegerRule>(&setting.rule)) return expected_integer(*integer);
  if (is_boolean(setting)) return "boolean";
  const auto& text = std::get<TextRule>(setting.rule);
  if (!text.choices.empty()) return "one of " + joined(text.choices);
  return text.may_be_empty ? "string" : "non-empty string";
}

std::string default_of(const Setting& setting) {
  const DaemonConfig defaults;
  if (const auto* integer = std::get_if<IntegerRule>(&setting.rule))
    return std::to_string(defaults.*integer->member);
  if (const auto* boolean = std::get_if<BooleanRule>(&setting.rule))
    return defaults.*boolean->member ? "true" : "false";
  if (const auto* optional = std::get_if<OptionalBooleanRule>(&setting.rule)) return optional->unset;
  return defaults.*std::get<TextRule>(setting.rule).member;
}

bool is_boolean(const Setting& setting) {
  return std::holds_alternative<BooleanRule>(setting.rule) ||
         std::holds_alternative<OptionalBooleanRule>(setting.rule);
}

bool store_boolean(DaemonConfig& config, const Setting& setting, bool value) {
  if (const auto* boolean = std::get_if<BooleanRule>(&setting.rule)) {
    config.*boolean->member = value;
  } else if (const auto* optional = std::get_if<OptionalBooleanRule>(&setting.rule)) {
    config.*optional->member = value;
  }
  return is_boolean(setting);
}

std::string store_integer(DaemonConfig& config, const IntegerRule& rule, std::int64_t value) {
  if (value < rule.min || value > rule.max ||
      (rule.power_of_two && !std::has_single_bit(static_cast<std::uint32_t>(value))))
    return expected_integer(rule);
  config.*rule.member = static_cast<std::uint32_t>(value);
  return {};
}

std::string store_text(DaemonConfig& config, const TextRule& rule, const std::string& value) {
  if (value.find('\0') != std::string::npos) return "string without zero bytes";
  if (!rule.choices.empty() &&
      std::find(rule.choices.begin(), rule.choices.end(), value) == rule.choices.end())
    return "one of " + joined(rule.choices);
  if (value.empty() && !rule.may_be_empty) return "non-empty string";
  config.*rule.member = value;
  return {};
}

void ConfigReader::report(std::string origin, std::string message, std::string hint) {
  // `origin` already contains the name of a flag, so the message need not repeat it. For a line of the file
  // it must.
  if (origin.rfind("--", 0) == 0 && message.rfind(origin.substr(2) + ": ", 0) == 0)
    message.erase(0, origin.size());
  problems_.push_back({std::move(origin), std::move(message), std::move(hint)});
}

void ConfigReader::add_listen(const std::string& origin, const std::string& address) {
  const std::string bare = address.rfind("ip:", 0) == 0 ? address.substr(3) : address;
  if (!is_ip_address(bare.rfind("gid:", 0) == 0 ? bare.substr(4) : bare) && !is_host_name(bare)) {
    report(origin, "listen: expected IPv4 or IPv6 address or host name, got " + in_quotes(address),
           "the port has its own setting");
    return;
  }
  if (net::lacks_interface(bare)) {
    report(origin, "listen: " + bare + " is a link-local address and needs its interface",
           "for example " + bare + "%eth0; 'ip address' lists the interfaces");
    return;
  }
  for (const std::string& other : config_.listen) {
    if (plain_address(other) != plain_address(bare)) continue;
    report(origin, "listen: " + bare + " is given twice" + (other == bare ? "" : ", first as " + other));
    return;
  }
  config_.listen.push_back(bare);
  origins_["listen"] = origin;
}

namespace {

// ASCII control characters, including NUL, line feed and tab.
bool has_control_bytes(const std::string& name) {
  return std::any_of(name.begin(), name.end(),
                     [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
}

}  // namespace

void ConfigReader::add_export(const std::string& origin, ExportSpec spec, bool replace) {
  constexpr std::size_t kMaxName = 254;  // protocol section 2.9: 255 bytes with the NUL
  if (spec.name.empty() || spec.name.size() > kMaxName ||
      spec.name.find_first_not_of('/') == std::string::npos || spec.name.find("..") != std::string::npos ||
      has_control_bytes(spec.name) || !trace::is_utf8(spec.name)) {
    report(origin, "export name " + in_quotes(spec.name) + " cannot be used",
           "a name is 1 to 254 bytes of UTF-8, not only slashes, with no \"..\" and no control characters");
    return;
  }
  const auto same = std::find_if(config_.exports.begin(), config_.exports.end(),
                                 [&](const ExportSpec& other) { return same_export(other.name, spec.name); });
  if (same == config_.exports.end() || replace) origins_["export " + spec.name] = origin;
  if (same == config_.exports.end()) {
    config_.exports.push_back(std::move(spec));
  } else if (replace) {
    *same = std::move(spec);
  } else {
    report(origin, "export " + in_quotes(spec.name) + " is configured twice" +
                       (same->name == spec.name ? "" : ", first as " + in_quotes(same->name)));
  }
}

}  // namespace rtrs::daemon
