#include "tools/urtrsd/config/config_values.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/platform/address/path_syntax.hpp"
#include "core/proto/limits.hpp"
#include "core/record/format.hpp"
#include "tools/urtrsd/config/config_text.hpp"

namespace rtrs::daemon {
namespace {

using options::number, options::size, options::text, options::time_or_zero, options::toggle, options::words;
using Own = Setting::Own;
using D = DaemonConfig* const&;

constexpr options::Rule kChunkSize = [] {
  auto rule = size(8192, 1U << 28);
  rule.power_of_two = true;
  return rule;
}();

constexpr std::array kOwn{
    Own{{"port", number(0, 65535), "", "port of every listen address; 0: any free one"},
        [](D d) { return &d->port; }},
    Own{{"sess_queue_depth", number(1, kMaxPermits), "", "IOs in flight in one session"},
        [](D d) { return &d->protocol.queue_depth; }},
    Own{{"max_chunk_size", kChunkSize, "", "bytes of the buffer of one IO; the largest IO is 4096 less"},
        [](D d) { return &d->protocol.chunk_size; }},
    Own{{"always_invalidate", toggle(), "where it protects", "give every IO a fresh remote key"},
        [](D d) { return &d->always_invalidate; }},
    Own{{"assume_kernel_6_12_clients", toggle(), "",
         "every kernel client is 6.12 or newer: leave the keys of READs to them, which saves a message a "
         "READ. With an older client every READ hangs, and so does its map_device"},
        [](D d) { return &d->assume_kernel_6_12_clients; }},
    Own{{"dev_search_path", text("DIRECTORY"), "",
         "directory peers may open devices in, %SESSNAME% stands for the session; nothing outside it can be "
         "opened"},
        [](D d) { return &d->dev_search_path; }},
    Own{{"strict", toggle(), "",
         "exit with code 3 if an export, dev_search_path, a listen address or the address of metrics is "
         "missing at the start, and let a reload reject exports that cannot be opened; otherwise urtrsd "
         "serves the rest, and retries the missing ones after 1 s, 2 s, 4 s and so on, later once a minute"},
        [](D d) { return &d->strict; }},
    Own{{"max_sessions", number(1, kMaxSessions), "", "maximum number of sessions"},
        [](D d) { return &d->protocol.max_sessions; }},
    Own{{"max_host_sessions", number(0, kMaxSessions), "",
         "sessions of one client address (IPv6: of its first 64 bits), each with sess_queue_depth x "
         "max_chunk_size bytes; 0: all but an eighth of max_sessions"},
        [](D d) { return &d->protocol.max_host_sessions; }},
    Own{{"max_half_open", number(0, kMaxSessions), "",
         "sessions of one client address that are not complete yet; beyond it the oldest of them is closed; "
         "0: half of max_sessions"},
        [](D d) { return &d->protocol.max_half_open; }},
    Own{{"connection_memory_mb", number(16, 1U << 20), "",
         "MiB for the queues of all connections of the tcp fabric together; one client address may take all "
         "but an eighth of what the others leave"},
        [](D d) { return &d->connection_memory_mb; }},
    Own{{"allow_addresses", text("LIST"), "",
         "addresses and ranges (10.0.0.0/8) from which clients may connect, separated by commas; unset: from "
         "everywhere"},
        [](D d) { return &d->allow_addresses; }},
    Own{{"allow_identities", text("LIST"), "",
         "identities of keys and certificates that may connect, separated by commas; unset: all of them"},
        [](D d) { return &d->allow_identities; }},
    Own{{"allow_sessions", text("LIST"), "",
         "session names that clients may use, with commas, %IDENTITY% first and * last; unset: any"},
        [](D d) { return &d->allow_sessions; }},
    Own{{"poll", time_or_zero(seconds(1)), "",
         "how long to keep polling before sleeping, while polling finds something; 0: sleep at once"},
        [](D d) { return &d->poll; }},
    Own{{"busy_poll", toggle(), "", "never sleep: lowest latency, one core always busy"},
        [](D d) { return &d->busy_poll; }},
    Own{{"log_level", words("trace|debug|info|warn|error"), "", "least severe message to log"},
        [](D d) { return &d->log_level; }},
    Own{{"log_format", words("text|json"), "",
         "json: each line of the log is an object, with the fields of management.md"},
        [](D d) { return &d->log_format; }},
    Own{{"metrics", text("ADDRESS"), "", "ADDRESS:PORT or unix socket of /metrics"},
        [](D d) { return &d->metrics; }},
    Own{{"shutdown_timeout", options::time_or_never(), "",
         "time after SIGTERM or SIGINT in which storage may finish its pending operations; then urtrsd exits "
         "without them"},
        [](D d) { return &d->shutdown_timeout; }},
    Own{{"nbd_wait", time_or_zero(seconds(86400)), "",
         "how long IO waits for the lost NBD server of an export before it fails; 0: fails at once"},
        [](D d) { return &d->nbd_wait; }},
};

constexpr OlderKey kOlder[] = {{"heartbeat.interval_ms", "heartbeat_interval", "ms", ""},
                               {"heartbeat.missed_max", "heartbeat_missed", "", ""},
                               {"shutdown_timeout_s", "shutdown_timeout", "s", "never"},
                               {"nbd_wait_s", "nbd_wait", "s", ""},
                               {"trace_size_mb", "trace_size", "M", ""},
                               {"poll_us", "poll", "us", ""}};

}  // namespace

bool authenticates_clients(const DaemonConfig& config) {
  return config.fabric == "tcp" ? config.tls.mode != "off" && config.tls.credentials.any()
                                : config.auth.mode != "off" && !config.auth.keys.empty();
}

bool requires_tls(const DaemonConfig& config) {
  const options::TlsChoice& tls = config.tls;
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
    std::vector<Setting> both;
    for (const Setting::Shared& one : options::server_options()) both.emplace_back(one);
    for (const Own& one : kOwn) both.emplace_back(one);
    for (const Own& one : options::kProcessOptions<DaemonConfig>) both.emplace_back(one);
    return both;
  }();
  return all;
}

const Setting* find_setting(std::string_view key) {
  for (const Setting& setting : settings())
    if (setting->name == key) return &setting;
  return nullptr;
}

std::span<const OlderKey> older_keys() {
  return kOlder;
}

std::string Setting::expected() const {
  const options::Rule& rule = row_->rule;
  switch (rule.kind) {
    case options::Kind::number:
      return "integer " + range(rule, "..");
    case options::Kind::size:
      return (rule.power_of_two ? "power of two " : "size ") + range(rule, "..");
    case options::Kind::time:
      return "time" + (rule.most == 0 ? std::string() : " " + range(rule, ".."));
    case options::Kind::toggle:
      return "boolean";
    case options::Kind::word: {
      std::string words;
      for (const std::string& word : choices(rule)) words += (words.empty() ? "one of " : ", ") + word;
      return words;
    }
    default:
      return rule.or_empty ? "string" : "non-empty string";
  }
}

std::string Setting::placeholder() const {
  const options::Rule& rule = row_->rule;
  const bool is_text = rule.kind == options::Kind::text || rule.kind == options::Kind::file;
  return is_text && !rule.shape.empty() ? std::string(rule.shape) : "<" + expected() + ">";
}

std::string Setting::show(const DaemonConfig& config) const {
  // Setting accessors also write, so they need a non-const reference.
  auto& read = const_cast<DaemonConfig&>(config);
  return own_ != nullptr ? options::show(*own_, &read)
                         : options::show(*shared_, options::Connection(read, read.protocol));
}

std::string Setting::default_value() const {
  if (own_ != nullptr && !own_->initial.empty()) return std::string(own_->initial);
  const std::string value = show({});
  return !is_boolean() ? value : value == "on" ? "true" : "false";
}

std::string Setting::store(DaemonConfig& config, std::string_view value) const {
  if (value.find('\0') != std::string_view::npos) return "string without zero bytes";
  const std::string error = own_ != nullptr
                                ? options::set(*own_, &config, value)
                                : options::set(*shared_, options::Connection(config, config.protocol), value);
  return error.empty() ? error : expected();
}

std::string ConfigReader::store(const std::string& origin, std::string_view key, std::string value) {
  for (const OlderKey& older : older_keys()) {
    if (key != older.key) continue;
    const auto number = parse_integer(value);
    if (!number) return "integer";
    value = *number == 0 && !older.zero.empty() ? std::string(older.zero) : value + std::string(older.unit);
    key = older.now;
  }
  std::string expectation = find_setting(key)->store(config_, value);
  if (expectation.empty()) origins_[std::string(key)] = origin;
  return expectation;
}

void ConfigReader::report(std::string origin, std::string message, std::string hint) {
  // The message repeats the name of the setting, which is needed for a line of the file. For a flag, `origin`
  // already is that name, so it is removed from the message.
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

// True if the name contains ASCII control characters, including NUL, line feed and tab.
bool has_control_bytes(const std::string& name) {
  return std::any_of(name.begin(), name.end(),
                     [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
}

}  // namespace

void ConfigReader::add_export(const std::string& origin, ExportSpec spec, bool replace) {
  constexpr std::size_t kMaxName = 254;  // 255 bytes with the NUL, protocol section 2.9
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
