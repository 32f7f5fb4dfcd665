#include "tools/urtrs/views/client_views.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/base/counted.hpp"
#include "tools/lib/control/client/client_facts.hpp"
#include "tools/urtrs/views/fact_tables.hpp"
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
  std::string text = fmt::format("attempt {}", number(path, "attempt"));
  if (bounded) text += " of " + most.dump();
  if (path.contains("next_s") && path["next_s"].is_number())
    text += fmt::format(", next in {:.1f} s", path["next_s"].get<double>());
  if (path.contains("sentence")) text += fmt::format(" ({})", path.value("sentence", ""));
  return text;
}

// Formats a path as a line, for example "path 0  ip:10.0.0.1@ip:10.0.0.2  rxe0  connected  rtt 41us  inflight
// 3".
std::string below(const json& path) {
  const std::string state = path.value("state", "");
  std::string line = path_line(path);
  if (path.contains("rtt_us") && path["rtt_us"].is_number() && state == "connected")
    line += fmt::format("  rtt {:.0f}us", path["rtt_us"].get<double>());
  if (state == "connected") return line + fmt::format("  inflight {}", number(path, "inflights"));
  if (number(path, "attempt") != 0) return line + "  " + attempts_text(path);
  return path.contains("sentence") ? line + fmt::format("  ({})", path.value("sentence", "")) : line;
}

}  // namespace

Table client_sessions(const json& shown) {
  return session_table(tools::fields_of(control::client_session_facts()),
                       tools::fields_of(control::client_path_facts()), shown, below);
}

Table client_paths(const json& shown, const std::string& of) {
  return path_table(tools::fields_of(control::client_path_facts()), shown, of, false);
}

Table client_devices(const json& shown, const std::string& of) {
  return object_table("devices", tools::fields_of(control::client_device_facts()), shown.at("devices"), of);
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
      table.rows.push_back({{{"sessname", sessname_of(session)}, {"name", name}, {"value", value}}, {}});
  }
  return table;
}

Table client_timers(const json& shown, const std::string& of) {
  Table table{"timers",
              {{"sessname", "Session name", "name of the session"},
               {"name", "Timer", "the parameter of the plugin that sets it"},
               {"seconds", "Seconds", "never: no limit; null in JSON", Kind::seconds},
               Field{"origin", "From", "default, option, or the timeout that it depends on"}.of(
                   "default|option|from the heartbeat|from reconnect_max")},
              {}};
  for (const json& session : shown.at("sessions")) {
    const std::string name = sessname_of(session);
    if (!of.empty() && name != of) continue;
    for (const json& timer : session.value("timers", json::array()))
      table.rows.push_back(
          {{{"sessname", name},
            {"name", timer.value("name", "")},
            {"seconds",
             timer.contains("seconds") && timer["seconds"].is_number() ? timer["seconds"] : json()},
            {"origin", timer.value("origin", "")}},
           {}});
  }
  return table;
}

Table client_rates(const json& before, const json& now, double seconds) {
  const Table paths = client_paths(now, {});
  Table table = rates(client_paths(before, {}), paths, seconds, {"rx_bytes", "tx_bytes"});
  // Removes the fields for service times: a client only reports the round-trip time of heartbeats.
  std::erase_if(table.fields, [](const Field& one) { return std::string_view(one.name).ends_with("_us"); });
  table.fields.push_back({"rtt_us", "RTT/us", "microseconds from a heartbeat to its answer", Kind::number});
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    table.rows[i].values["rtt_us"] = paths.rows[i].values.value("rtt_us", json(0.0));
  return table;
}

std::string client_waits_text(const json& dump) {
  std::string text;
  const auto line = [&text](const std::string& one) { text += printable(one) + "\n"; };
  for (const json& session : dump.value("sessions", json::array())) {
    line(fmt::format("session {}: {} in flight, {} of them without a permit", session.value("session", ""),
                     counted(number(session, "under_way"), "request"), number(session, "queued")));
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
