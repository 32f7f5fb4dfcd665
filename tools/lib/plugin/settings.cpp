#include "tools/lib/plugin/settings.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backends/asio/path_syntax.hpp"
#include "core/record/format.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/geometry.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/client_control/client_control.hpp"
#include "tools/lib/plugin/setting_values.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/quantity.hpp"
#include "tools/lib/text/session_name.hpp"

namespace rtrs::nbdkit {
namespace {

constexpr std::uint64_t kMebibyte = 1U << 20;

Done set_access_mode(std::string_view value, wire::rnbd::AccessMode& out) {
  using wire::rnbd::AccessMode;
  for (const AccessMode mode : {AccessMode::read_only, AccessMode::read_write, AccessMode::migration}) {
    if (value != wire::rnbd::to_string(mode)) continue;
    out = mode;
    return {};
  }
  return refuse("access_mode", value, "expected ro, rw or migration");
}

Done set_exports(std::string_view value, bool& only_mapped) {
  if (value != "all" && value != "mapped") return refuse("exports", value, "expected all or mapped");
  only_mapped = value == "mapped";
  return {};
}

Done set_fabric(std::string_view value, std::string& out) {
  for (const std::string& name : tools::fabric_names()) {
    if (value == name) out = name;
  }
  return out == value ? Done{} : refuse("fabric", value, "expected tcp, libfabric or verbs");
}

Done set_post(std::string_view value, std::string& out) {
  const std::vector<std::string>& names = tools::post_names();
  if (std::find(names.begin(), names.end(), value) == names.end())
    return refuse("rdma_post", value, "expected auto, wr or send");
  out = value;
  return {};
}

Done set_tls(std::string_view value, std::string& out) {
  if (value != "require" && value != "off")
    return refuse("tls", value,
                  value == "allow" ? "it is for servers: a client demands TLS, or goes without"
                                   : "expected require or off");
  out = value;
  return {};
}

// Every parameter of the plugin.
const std::vector<std::string_view> kKeys{"path",
                                          "device",
                                          "port",
                                          "session",
                                          "exports",
                                          "access_mode",
                                          "fabric",
                                          "provider",
                                          "crc",
                                          "rdma_device",
                                          "rdma_retry_count",
                                          "rdma_ack_timeout",
                                          "rdma_tos",
                                          "rdma_relaxed_ordering",
                                          "rdma_thread_domains",
                                          "rdma_post",
                                          "tls",
                                          "tls_keys",
                                          "tls_identity",
                                          "tls_cert",
                                          "tls_key",
                                          "tls_ca",
                                          "tls_crl",
                                          "tls_server_name",
                                          "tls_kernel",
                                          "auth_keys",
                                          "auth_identity",
                                          "connections",
                                          "queue_depth",
                                          "connect_timeout",
                                          "heartbeat_interval",
                                          "heartbeat_missed",
                                          "reconnect_min",
                                          "reconnect_max",
                                          "queue_timeout",
                                          "request_timeout",
                                          "policy",
                                          "extensions",
                                          "offer_invalidation",
                                          "trace",
                                          "trace_detail",
                                          "trace_size",
                                          "trace_dump",
                                          "status",
                                          "control",
                                          "control_group"};

// Each replaces what is there, the trace that is being written too.
Done check_outputs(const Settings& given) {
  const auto real = [](const std::string& path) {
    std::error_code error;
    auto result = std::filesystem::weakly_canonical(path, error);
    return error ? std::filesystem::path(path) : result;
  };
  const std::pair<const char*, const std::string*> files[] = {
      {"trace", &given.trace}, {"trace_dump", &given.trace_dump}, {"status", &given.status}};
  for (const auto& one : files)
    for (const auto& other : files)
      if (&one < &other && !one.second->empty() && real(*one.second) == real(*other.second))
        return refuse(other.first, *other.second,
                      std::string("is the file of ") + one.first + "= too; name another file");
  return {};
}

Done refuse_key(std::string_view key) {
  const std::string meant = tools::nearest_word(key, kKeys);
  return tl::unexpected("unknown parameter '" + std::string(key) + "'; " +
                        (meant.empty() ? "" : "did you mean " + meant + "=? ") +
                        "nbdkit-urtrs --help lists them all");
}

Done set_protocol(std::string_view key, std::string_view value, ClientConfig& protocol) {
  if (key == "queue_depth") return set_number(key, value, 1, kMaxPermits, protocol.max_depth);
  if (key == "connections") {
    unsigned connections = 0;
    const Done done = set_number(key, value, 1, kMaxCons - 1, connections);
    if (done) protocol.con_num = static_cast<std::uint16_t>(connections + 1);
    return done;
  }
  if (key == "heartbeat_interval")
    return set_interval(key, value, milliseconds(10), protocol.heartbeat.interval);
  if (key == "heartbeat_missed") return set_number(key, value, 1, 1000, protocol.heartbeat.missed_max);
  if (key == "reconnect_min") return set_interval(key, value, milliseconds(1), protocol.reconnect_min);
  if (key == "reconnect_max") return set_interval(key, value, milliseconds(1), protocol.reconnect_max);
  if (key == "offer_invalidation") return set_switch(key, value, protocol.offer_invalidation);
  if (key == "extensions") {
    bool wanted = true;
    const Done done = set_switch(key, value, wanted);
    if (done) protocol.extensions = wanted ? ClientConfig{}.extensions : wire::Extensions::none;
    return done;
  }
  if (key == "policy") {
    const auto policy = control::parse_policy(std::string(value));
    if (!policy)
      return refuse(key, value, "expected rr (round-robin), mi (min-inflight) or ml (min-latency)");
    protocol.policy = *policy;
    return {};
  }
  if (key == "queue_timeout") return set_timeout(key, value, protocol.queue_timeout);
  if (key == "request_timeout") return set_timeout(key, value, protocol.request_timeout);
  return refuse_key(key);
}

Done check_name(std::string_view key, const std::string& name) {
  if (name.empty() || name.size() > 254) return refuse(key, name, "expected 1 to 254 characters");
  return {};
}

// The server takes one path for one pair of addresses and refuses the second for ever.
Done check_paths(const std::vector<std::string>& paths, std::uint16_t port) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const auto one = asio::parse_path(paths[k], port);
      const auto other = asio::parse_path(paths[i], port);
      if (!one || !other || !asio::same_path(*one, *other)) continue;
      const std::string as = paths[k] == paths[i] ? "is given twice" : "is the same path as path=" + paths[k];
      return refuse("path", paths[i], as + "; every path needs a pair of addresses of its own");
    }
  }
  return {};
}

// Their names are those of exports, which NBD has in UTF-8.
Done check_devices(const std::vector<std::string>& devices) {
  if (devices.size() > rnbd::kMaxClientDevices)
    return tl::unexpected("more than " + std::to_string(rnbd::kMaxClientDevices) + " devices are given");
  for (auto one = devices.begin(); one != devices.end(); ++one) {
    if (const Done done = check_name("device", *one); !done) return done;
    if (std::find(devices.begin(), one, *one) != one) return refuse("device", *one, "is given twice");
  }
  return {};
}

std::string absolute(const std::string& file, const std::string& directory) {
  return file.empty() || file.front() == '/' ? file : directory + "/" + file;
}

Done set_trace_detail(std::string_view value, trace::Detail& detail) {
  for (const auto& [word, meaning] :
       {std::pair<std::string_view, trace::Detail>{"machines", trace::Detail::machines},
        {"wire", trace::Detail::wire},
        {"payload", trace::Detail::payload}}) {
    if (value != word) continue;
    detail = meaning;
    return {};
  }
  return refuse("trace_detail", value, "is none of machines, wire and payload");
}

// Each parameter does something: none is for what is not asked for.
Done check_company(const Settings& settings) {
  const auto is_given = [&settings](const char* key) {
    return std::any_of(settings.given.begin(), settings.given.end(),
                       [key](const std::string& one) { return one.compare(0, one.find('='), key) == 0; });
  };
  for (const char* key : {"trace_detail", "trace_size"})
    if (is_given(key) && settings.trace.empty())
      return tl::unexpected(std::string(key) + "= belongs to trace=FILE, which is not given");
  if (is_given("exports") && !settings.devices.empty())
    return tl::unexpected<std::string>("exports= is for a session without device=; leave one of the two out");
  for (const char* key : {"rdma_device", "rdma_retry_count", "rdma_ack_timeout", "rdma_tos",
                          "rdma_relaxed_ordering", "rdma_thread_domains", "rdma_post"})
    if (is_given(key) && settings.fabric.fabric != "verbs")
      return tl::unexpected(std::string(key) + "= belongs to fabric=verbs, which is not given");
  if (is_given("crc") && settings.fabric.fabric != "tcp")
    return tl::unexpected<std::string>("crc= belongs to fabric=tcp, and another fabric is given");
  for (const std::string& why :
       {tools::of_another_fabric(settings.fabric), tools::contradiction(settings.fabric.tls),
        tools::contradiction(settings.fabric.auth)})
    if (!why.empty()) return tl::unexpected(tools::with_underscores(why));
  return {};
}

// A number without a unit is in MiB.
Done set_trace_size(std::string_view value, trace::FileOptions& options) {
  const auto size = tools::parse_size(value, kMebibyte);
  if (!size) return tl::unexpected("trace_size: " + size.error());
  if (*size < kMebibyte || *size > kMebibyte << 20) return refuse("trace_size", value, "expected 1M to 1T");
  options.rotate_bytes = *size;
  return {};
}

}  // namespace

Nanos Settings::taken_name_timeout() const {
  const Nanos dead = std::max(dead_peer_time(protocol.heartbeat), dead_peer_time(HeartbeatConfig{}));
  return std::max(connect_timeout, dead + seconds(10) + protocol.reconnect_max);
}

Done Settings::set(std::string_view key, std::string_view value) {
  given.push_back(std::string(key) + "=" + std::string(value));
  if (key == "path") {
    if (const auto path = asio::parse_path(value, port); !path) return tl::unexpected(path.error());
    paths.emplace_back(value);
    return {};
  }
  if (key == "device") {
    if (value.empty()) return refuse(key, value, "is empty");
    devices.emplace_back(value);
    return {};
  }
  if (key == "port") return set_number(key, value, 1, 65535, port);
  if (key == "exports") return set_exports(value, only_mapped);
  if (key == "fabric") return set_fabric(value, fabric.fabric);
  if (key == "tls") return set_tls(value, fabric.tls.mode);
  if (key == "crc") return set_switch(key, value, fabric.crc);
  if (key == "rdma_retry_count") return set_number(key, value, 0, 7, fabric.retry_count);
  if (key == "rdma_ack_timeout") return set_number(key, value, 0, 31, fabric.ack_timeout);
  if (key == "rdma_tos") return set_number(key, value, 0, 255, fabric.tos);
  if (key == "rdma_relaxed_ordering") return set_switch(key, value, fabric.relaxed_ordering);
  if (key == "rdma_thread_domains") return set_switch(key, value, fabric.thread_domains);
  if (key == "rdma_post") return set_post(value, fabric.post);
  if (key == "access_mode") {
    access_mode_given = true;
    return set_access_mode(value, access_mode);
  }
  if (key == "control") {
    control = value;
    return {};
  }
  if (key == "connect_timeout") return set_duration(key, value, connect_timeout);
  if (key == "tls_kernel") return set_switch(key, value, fabric.tls.credentials.kernel);
  tls::Credentials& files = fabric.tls.credentials;
  for (const auto& [name, text] : {std::pair<std::string_view, std::string*>{"session", &session},
                                   {"provider", &fabric.provider},
                                   {"rdma_device", &fabric.device},
                                   {"tls_keys", &files.keys},
                                   {"tls_identity", &files.identity},
                                   {"tls_cert", &files.cert},
                                   {"tls_key", &files.key},
                                   {"tls_ca", &files.ca},
                                   {"tls_crl", &files.crl},
                                   {"tls_server_name", &files.server_name},
                                   {"auth_keys", &fabric.auth.keys},
                                   {"auth_identity", &fabric.auth.identity},
                                   {"trace", &trace},
                                   {"trace_dump", &trace_dump},
                                   {"status", &status},
                                   {"control_group", &control_group}}) {
    if (key != name) continue;
    if (value.empty()) return refuse(key, value, "is empty");
    *text = value;
    return {};
  }
  if (key == "trace_detail") return set_trace_detail(value, trace_options.detail);
  if (key == "trace_size") return set_trace_size(value, trace_options);
  reconnect_min_given |= key == "reconnect_min";
  return set_protocol(key, value, protocol);
}

Done Settings::complete(const std::string& who, std::uint32_t random, const std::string& working_directory) {
  if (paths.empty())
    return tl::unexpected<std::string>("no path= is given: the address of the server, e.g. path=10.0.0.2");
  if (paths.size() > kMaxPaths)
    return tl::unexpected("more than " + std::to_string(kMaxPaths) + " paths are given");
  if (const Done done = check_paths(paths, port); !done) return done;
  if (session.empty()) session = tools::default_session_name(who, program, random);
  if (const Done done = check_name("session", session); !done) return done;
  if (session.find_first_of("/.") != std::string::npos)
    return refuse("session", session, "'/' and '.' are not allowed");
  if (!trace::is_utf8(session))
    return refuse("session", trace::clean_text(session), "expected text in UTF-8");
  if (!wire::valid_session_name(session))
    return refuse("session", session, "control characters are not allowed");
  if (const Done done = check_devices(devices); !done) return done;
  if (read_only_asked && access_mode_given && rnbd::is_writable(access_mode))
    return refuse("access_mode", wire::rnbd::to_string(access_mode),
                  "nbdkit -r asks for a read-only device; leave one of the two out");
  if (read_only_asked) access_mode = wire::rnbd::AccessMode::read_only;
  if (!reconnect_min_given) protocol.reconnect_min = std::min(protocol.reconnect_min, protocol.reconnect_max);
  if (protocol.reconnect_min > protocol.reconnect_max)
    return tl::unexpected<std::string>("reconnect_min is longer than reconnect_max");
  // A request and the messages of the session need room even where the depth is 1.
  protocol.send_depth = static_cast<std::uint16_t>(std::max(64, 2 * protocol.max_depth));
  if (const Done done = check_company(*this); !done) return done;
  tls::Credentials& files = fabric.tls.credentials;
  for (std::string* file : {&files.keys, &files.cert, &files.key, &files.ca, &files.crl, &fabric.auth.keys})
    *file = absolute(*file, working_directory);
  trace = absolute(trace, working_directory);
  trace_dump = absolute(trace_dump, working_directory);
  directory = working_directory;
  trace_options.flush_every = seconds(1);
  status = absolute(status, working_directory);
  if (control != "auto") control = absolute(control, working_directory);
  return check_outputs(*this);
}

}  // namespace rtrs::nbdkit
