#include "tools/urtrs/views/client_metrics.hpp"

#include <string_view>
#include <utility>

#include "tools/lib/control/metrics/families.hpp"

namespace rtrs::admin {

using metrics::Families;
using metrics::Labels;
using nlohmann::json;

namespace {

double real(const json& of, const char* key) {
  const auto found = of.find(key);
  return found != of.end() && found->is_number() ? found->get<double>() : 0;
}

std::uint64_t whole(const json& of, const char* key) {
  const auto found = of.find(key);
  return found != of.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string text(const json& of, const char* key) {
  const auto found = of.find(key);
  return found != of.end() && found->is_string() ? found->get<std::string>() : std::string();
}

json list(const json& of, const char* key) {
  const auto found = of.find(key);
  return found != of.end() && found->is_array() ? *found : json::array();
}

void add_path(Families& to, const std::string& session, const json& path) {
  const Labels labels{
      {"session", session}, {"path", text(path, "pathname")}, {"index", std::to_string(whole(path, "path"))}};
  to.gauge("urtrs_client_path_up", "1 while the path is connected", text(path, "state") == "connected",
           labels);
  to.gauge("urtrs_client_path_inflight", "requests that are not answered yet", real(path, "inflight"),
           labels);
  to.gauge("urtrs_client_path_heartbeat_seconds", "that the last heartbeat took", real(path, "rtt_us") / 1e6,
           labels);
  const std::pair<const char*, const char*> counters[] = {
      {"reads", "requests to read"},
      {"read_bytes", "their bytes"},
      {"writes", "requests to write"},
      {"write_bytes", "their bytes"},
      {"failovers", "requests taken over from other paths"},
      {"reconnects", "number of reconnects"},
      {"failed_attempts", "attempts to connect that failed"}};
  for (const auto& [key, help] : counters)
    to.counter(("urtrs_client_path_" + std::string(key) + "_total").c_str(), help, whole(path, key), labels);
}

void add_session(Families& to, const json& client, const json& session) {
  const std::string name = text(session, "name");
  const Labels labels{{"session", name}};
  to.gauge("urtrs_client_up", "1 while a path of the session is connected",
           text(session, "state") == "connected", labels);
  to.gauge("urtrs_client_inflight", "requests that are not answered yet", real(session, "inflight"), labels);
  to.gauge("urtrs_client_queued", "requests that wait for a permit", real(session, "queued"), labels);
  to.gauge("urtrs_client_uptime_seconds", "since the start of the client", real(client, "uptime_s"), labels);
  const json stats = client.value("stats", json::object());
  for (const auto& [key, value] : stats.items()) {
    if (key == "permits_given_up")
      to.gauge("urtrs_client_permits_given_up", "of requests that failed and may still execute",
               real(stats, key.c_str()), labels);
    else
      to.counter(("urtrs_client_" + key + "_total").c_str(), "as \"urtrs client stats\" has it",
                 whole(stats, key.c_str()), labels);
  }
  for (const json& path : list(session, "paths")) add_path(to, name, path);
}

}  // namespace

std::string client_metrics_text(const json& shown) {
  Families all;
  for (const json& client : shown) {
    for (const json& session : list(client, "sessions")) {
      all.gauge("urtrs_client_info", "version and fabric of a client", 1,
                {{"session", text(session, "name")},
                 {"version", text(client, "version")},
                 {"fabric", text(client, "fabric")}});
      add_session(all, client, session);
    }
    for (const json& device : list(client, "devices")) {
      const Labels labels{{"session", text(device, "session")},
                          {"mapping_path", text(device, "mapping_path")}};
      all.gauge("urtrs_client_device_open", "1 while the server has the device open for the client",
                text(device, "state") == "open", labels);
      all.gauge("urtrs_client_device_size_bytes", "when it was opened last", real(device, "size_bytes"),
                labels);
      all.gauge("urtrs_client_device_users", "NBD connections that use it", real(device, "users"), labels);
    }
  }
  return all.text();
}

}  // namespace rtrs::admin
