#include "tools/urtrs/views/client_views.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <utility>

#include "tools/lib/control/client/client_path_fields.hpp"
#include "tools/urtrs/views/top.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {

using nlohmann::json;
using Kind = Field::Kind;

namespace {

std::string attempts_text(const json& path) {
  const json most = path.value("max_attempts", json());
  const bool bounded =
      most.is_number_unsigned() || (most.is_number_integer() && most.get<std::int64_t>() >= 0);
  std::string text = fmt::format("attempt {} of {}", number(path, "attempt"), bounded ? most.dump() : "inf");
  if (path.contains("next_s") && path["next_s"].is_number())
    text += fmt::format(", next in {:.1f} s", path["next_s"].get<double>());
  if (path.contains("sentence")) text += fmt::format(" ({})", path.value("sentence", ""));
  return text;
}

// Example: "path 0  ip:10.0.0.1@ip:10.0.0.2  rxe0  connected  rtt 41us  inflight 3".
std::string below(const json& path) {
  const std::string state = path.value("state", "");
  const std::string device = path.value("hca_name", "");
  std::string line = fmt::format("path {}  {}  {}{}{}", number(path, "path"), path.value("pathname", ""),
                                 device, device.empty() ? "" : "  ", state);
  if (path.contains("silent_s")) line += fmt::format("  silent for {:.0f} s", path.value("silent_s", 0.0));
  if (path.contains("rtt_us") && path["rtt_us"].is_number() && state == "connected")
    line += fmt::format("  rtt {:.0f}us", path["rtt_us"].get<double>());
  if (state == "connected") return line + fmt::format("  inflight {}", number(path, "inflight"));
  if (number(path, "attempt") != 0) return line + "  " + attempts_text(path);
  return path.contains("sentence") ? line + fmt::format("  ({})", path.value("sentence", "")) : line;
}

// Value of a field in the JSON of a client, which may be of the previous release and use the old name.
json value_of(const json& path, const control::ClientPathField& one) {
  const Field& field = one.field;
  const json* of = &path;
  const char* key = field.name;
  if (!path.contains(key) && one.old_name != nullptr) {
    const json::json_pointer old(one.old_name);
    const json::json_pointer parent = old.parent_pointer();
    if (!path.contains(parent)) return {};
    of = &path[parent];
    key = std::strrchr(one.old_name, '/') + 1;
  }
  if (field.kind != Kind::text && field.value == Field::Value::usual && !field.optional)
    return number(*of, key);
  return of->contains(key) ? (*of)[key] : json();
}

// Removes members of the JSON that are not fields of the table.
Row only_fields(const Table& table, const json& values) {
  Row row{json::object(), {}};
  for (const Field& field : table.fields)
    if (values.contains(field.name)) row.values[field.name] = values[field.name];
  return row;
}

}  // namespace

Table client_sessions(const json& shown) {
  Table table{
      "sessions",
      {{"sessname", "Session name", "name of the session"},
       Field{"state", "State", "connected or disconnected"}.of("connected|disconnected"),
       Field{"path_uu", "PS", "one U for each path that is up, one _ for each that is not"}.of("^[U_]*$"),
       Field{"mp_short", "MP", "policy: RR round-robin, MI min-inflight, ML min-latency"}.of("RR|MI|ML"),
       {"tx_bytes", "TX", "bytes that were written", Kind::bytes, true, true},
       {"rx_bytes", "RX", "bytes that were read", Kind::bytes, true, true},
       {"reconnects", "Reconnects", "times that a path came back", Kind::number, true, true},
       {"inflights", "Inflight", "requests that are not answered yet", Kind::number, false, true},
       {"path_cnt", "Paths", "paths", Kind::number, false},
       {"act_path_cnt", "Active", "paths that are up", Kind::number, false},
       Field{"policy", "Policy", "in words", Kind::text, false}.of("round-robin|min-inflight|min-latency"),
       {"queued", "Queued", "requests that wait for a permit", Kind::number, false, true},
       {"depth", "Depth", "requests that can be at the server", Kind::number, false},
       {"reads", "Reads", "requests to read", Kind::number, false, true},
       {"writes", "Writes", "requests to write", Kind::number, false, true}},
      {}};
  for (const json& session : shown.at("sessions")) {
    Row row;
    std::string up;
    std::uint64_t active = 0;
    std::uint64_t sums[4] = {};
    for (const json& path : session.value("paths", json::array())) {
      const bool connected = path.value("state", "") == "connected";
      active += connected;
      up += connected ? 'U' : '_';
      const char* keys[] = {"write_bytes", "read_bytes", "reads", "writes"};
      for (std::size_t i = 0; i < std::size(keys); ++i) sums[i] += number(path, keys[i]);
      row.children.push_back(below(path));
    }
    row.values = {{"sessname", session.value("name", "")},
                  {"state", session.value("state", "")},
                  {"path_uu", up},
                  {"mp_short", session.value("mp_short", "")},
                  {"policy", session.value("policy", "")},
                  {"tx_bytes", sums[0]},
                  {"rx_bytes", sums[1]},
                  {"reads", sums[2]},
                  {"writes", sums[3]},
                  {"path_cnt", up.size()},
                  {"act_path_cnt", active},
                  {"inflights", number(session, "inflight")}};
    for (const char* key : {"reconnects", "queued", "depth"}) row.values[key] = number(session, key);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table client_paths(const json& shown, const std::string& of) {
  Table table{"paths", {}, {}};
  for (const control::ClientPathField& one : control::client_path_fields())
    if (one.in_tables) table.fields.push_back(one.field);
  for (const json& session : shown.at("sessions")) {
    if (!of.empty() && session.value("name", "") != of) continue;
    for (const json& path : session.value("paths", json::array())) {
      Row row{{{"sessname", session.value("name", "")}, {"posting", ""}}, {}};
      for (const control::ClientPathField& one : control::client_path_fields())
        if (json value = one.in_tables && one.get != nullptr ? value_of(path, one) : json(); !value.is_null())
          row.values[one.field.name] = std::move(value);
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table client_devices(const json& shown, const std::string& of) {
  Table table{
      "devices",
      {{"sessname", "Session name", "name of the session"},
       {"mapping_path", "Mapping path", "as the server knows it"},
       Field{"state", "State", "open, closed, init, unmapping, or idle: not mapped"}.of(
           "idle|init|open|closed|unmapping|unmapped"),
       Field{"access_mode", "Access mode", "ro, rw or migration"}.of("ro|rw|migration"),
       {"size_bytes", "Size", "when it was opened last", Kind::bytes},
       {"users", "Users", "NBD connections that have it", Kind::number},
       {"handle", "Handle", "number of this mapping", Kind::number, false},
       Field{"kept", "Kept", "stays open without users", Kind::text, false}.as(Field::Value::flag),
       {"errno", "Errno", "of the last refusal of the server", Kind::number, false},
       {"reason", "Reason", "why the server refused it, see \"urtrs reason show\"", Kind::text, false}},
      {}};
  for (const json& device : shown.at("devices")) {
    if (!of.empty() && device.value("session", "") != of) continue;
    json row = device;
    row["sessname"] = device.value("session", "");
    for (const char* key : {"size_bytes", "handle", "users", "errno"}) row[key] = number(device, key);
    table.rows.push_back(only_fields(table, row));
  }
  return table;
}

Table client_statistics(const json& shown) {
  Table table{"stats",
              {{"sessname", "Session name", "name of the session"},
               {"name", "Counter", "what is counted"},
               {"value", "Value", "since the start", Kind::number}},
              {}};
  for (const json& session : shown.at("sessions")) {
    const json stats = session.value("stats", json::object());
    for (const auto& [name, value] : stats.items())
      table.rows.push_back({{{"sessname", session.value("name", "")}, {"name", name}, {"value", value}}, {}});
  }
  return table;
}

Table client_timers(const json& shown, const std::string& of) {
  Table table{"timers",
              {{"sessname", "Session name", "name of the session"},
               {"name", "Timer", "as the parameter of the plugin that sets it"},
               {"seconds", "Seconds", "never: it does not end; null in JSON", Kind::seconds},
               Field{"origin", "From", "default, option, or the one that it follows"}.of(
                   "default|option|from the heartbeat|from reconnect_max")},
              {}};
  for (const json& session : shown.at("sessions")) {
    if (!of.empty() && session.value("name", "") != of) continue;
    for (const json& timer : session.value("timers", json::array()))
      table.rows.push_back(
          {{{"sessname", session.value("name", "")},
            {"name", timer.value("name", "")},
            {"seconds",
             timer.contains("seconds") && timer["seconds"].is_number() ? timer["seconds"] : json()},
            {"origin", timer.value("origin", "")}},
           {}});
  }
  return table;
}

Table client_rates(const json& before, const json& now, double seconds) {
  Table table = rates(before, now, seconds);
  // A client has no service times, but the round-trip time of heartbeats.
  std::erase_if(table.fields, [](const Field& one) { return std::string_view(one.name).ends_with("_us"); });
  table.fields.push_back({"rtt_us", "RTT/us", "microseconds from a heartbeat to its answer", Kind::number});
  std::map<std::pair<std::string, std::string>, json> rtt;
  for (const Row& row : client_paths(now, {}).rows)
    rtt[{row.values.value("sessname", ""), row.values.value("pathname", "")}] =
        row.values.value("rtt_us", json(0.0));
  for (Row& row : table.rows)
    row.values["rtt_us"] = rtt[{row.values.value("sessname", ""), row.values.value("pathname", "")}];
  return table;
}

std::string client_waits_text(const json& dump) {
  std::string text;
  const auto line = [&text](const std::string& one) { text += printable(one) + "\n"; };
  for (const json& session : dump.value("sessions", json::array())) {
    line(fmt::format("session {}: {} requests under way, {} of them wait for a permit",
                     session.value("session", ""), number(session, "under_way"), number(session, "queued")));
    if (const json oldest = session.value("oldest_request", json()); oldest.is_object())
      line(fmt::format("  the oldest has waited {:.1f} s for its answer over path {}, connection {}",
                       oldest.value("age_s", 0.0), number(oldest, "path"), number(oldest, "connection")));
    for (const json& path : session.value("paths", json::array())) {
      const std::string waits = path.value("waits", "");
      const std::string why = path.value("sentence", "");
      line(fmt::format("  path {} {} since {:.1f} s, inflight {}{}{}{}", path.value("path", ""),
                       path.value("state", ""), path.value("since_s", 0.0), number(path, "inflight"),
                       waits.empty() ? "" : ", waits for " + waits, why.empty() ? "" : ": ", why));
    }
    for (const json& device : session.value("devices", json::array()))
      line(fmt::format("  device {} {}, users {}", device.value("device", ""), device.value("state", ""),
                       number(device, "users")));
  }
  return text;
}

}  // namespace rtrs::admin
