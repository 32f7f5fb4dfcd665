#include "tools/urtrs/views/views.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/proto/reasons.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "tools/lib/control/attributes/server_facts.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/urtrs/views/fact_tables.hpp"

namespace rtrs::admin {

using nlohmann::json;
using Kind = Field::Kind;

namespace {

std::string below(const json& path) {
  const std::string reason =
      path.contains("reason") ? fmt::format(" ({})", path.value("reason", "")) : std::string();
  return path_line(path) + reason + fmt::format("  inflight {}", number(path, "inflights"));
}

}  // namespace

const json& expected_answer(const json& answer) {
  const auto version = answer.is_object() ? answer.find("schema_version") : answer.end();
  if (version == answer.end()) throw UnexpectedAnswer("it has no schema_version");
  if (*version != json(kSchemaVersion))
    throw UnexpectedAnswer(fmt::format("its schema_version is {}, not {}", version->dump(), kSchemaVersion));
  return answer;
}

std::uint64_t number(const json& of, const char* key) {
  const auto found = of.find(key);
  if (found == of.end() || found->is_null()) return 0;
  // Signed integers are accepted too, because tests use them.
  if (found->is_number_unsigned() || (found->is_number_integer() && found->get<std::int64_t>() >= 0))
    return found->get<std::uint64_t>();
  throw UnexpectedAnswer(fmt::format("\"{}\" is {}", key, tools::json_text(*found)));
}

Table sessions(const json& shown) {
  return session_table(tools::fields_of(attributes::server_session_facts()),
                       tools::fields_of(attributes::server_path_facts()), shown, below);
}

Table paths(const json& shown, const std::string& of) {
  return path_table(tools::fields_of(attributes::server_path_facts()), shown, of, true);
}

Table devices(const json& shown, const std::string& of) {
  return object_table("devices", tools::fields_of(attributes::open_device_facts()), shown.at("devices"), of,
                      true);
}

Table exports(const json& shown) {
  Table table = object_table("exports", tools::fields_of(attributes::export_facts()), shown.at("exports"));
  const bool all_served = std::all_of(table.rows.begin(), table.rows.end(), [](const Row& one) {
    return one.values.value("state", "served") == "served";
  });
  for (Field& field : table.fields)
    if (field.name == std::string_view("state") || field.name == std::string_view("why"))
      field.by_default = !all_served;
  return table;
}

std::vector<std::string> missing_beside_exports(const json& shown) {
  std::vector<std::string> lines;
  for (const json& one : shown.value("missing", json::array()))
    if (one.value("kind", "") != "export") lines.push_back(one.value("sentence", ""));
  return lines;
}

Table reasons() {
  Table table{"reasons",
              {{"code", "Code", "the word in logs, events, metrics and traces"},
               {"sentence", "Meaning", "in words"},
               {"errno", "Errno", "of Linux that stands for it", Kind::number, false},
               {"kind", "Kind", "wanted, ordinary, refused or broken", Kind::text, false},
               {"hint", "What to do", "", Kind::text, false}},
              {}};
  for (std::size_t i = 1; i < kReasonCount; ++i) {
    const ReasonText& text = text_of(static_cast<Reason>(i));
    table.rows.push_back({{{"code", text.code},
                           {"sentence", text.sentence},
                           {"errno", text.linux_errno},
                           {"kind", to_string(text.kind)},
                           {"hint", text.hint}},
                          {}});
  }
  for (std::size_t i = 1; i < rnbd::kDeviceReasonCount; ++i) {
    const rnbd::DeviceReasonText& text = rnbd::text_of(static_cast<rnbd::DeviceReason>(i));
    table.rows.push_back({{{"code", text.code},
                           {"sentence", text.sentence},
                           {"errno", text.linux_errno},
                           {"kind", to_string(text.may_pass ? ReasonKind::broken : ReasonKind::refused)},
                           {"hint", text.hint}},
                          {}});
  }
  return table;
}

Table in_flight(const json& dump) {
  Table table{"requests",
              {{"session", "Session", "name of the session"},
               {"path", "Path", "both ends", Kind::text, false},
               {"connection", "Connection", "of the path", Kind::number, false},
               {"permit", "Permit", "of the client", Kind::number},
               {"message", "Message", "io, open, close or sess_info", Kind::text, false},
               {"opcode", "Opcode", "of an IO"},
               {"device", "Device", "as the client mapped it"},
               {"sector", "Sector", "of 512 bytes", Kind::number},
               {"sectors", "Count", "of sectors", Kind::number},
               {"waits", "Waits", "for what, and since when"},
               {"state", "State", "key, gate, devices, storage, open or send_queue", Kind::text, false},
               {"since_s", "Since/s", "seconds in this state", Kind::number, false},
               {"age_s", "Age/s", "seconds since it arrived", Kind::number, false}},
              {}};
  for (const json& one : dump.value("requests", json::array())) table.rows.push_back({one, {}});
  return table;
}

std::string waits_text(const json& dump) {
  std::string text;
  const auto line = [&text](const std::string& one) { text += printable(one) + "\n"; };
  for (const json& session : dump.value("sessions", json::array())) {
    const std::string name = session.value("session", "");
    line(fmt::format("session {}{}", name.empty() ? "without a name" : name,
                     session.value("closing", false) ? ", closing" : ""));
    for (const json& path : session.value("paths", json::array())) {
      const std::string waits = path.value("waits", "");
      line(fmt::format("  path {} {} since {:.1f} s{}{}", path.value("path", ""), path.value("state", ""),
                       path.value("since_s", 0.0), waits.empty() ? "" : ": ", waits));
    }
    for (const json& device : session.value("devices", json::array()))
      line(fmt::format("  device {} {}: {}", device.value("device", ""), device.value("state", ""),
                       counted(number(device, "inflight"), "request")));
  }
  return text;
}

Table statistics(const json& shown) {
  Table table{"stats",
              {{"name", "Counter", "what is counted"}, {"value", "Value", "since the start", Kind::number}},
              {}};
  const json& stats = shown.at("stats");
  for (const auto& [name, value] : stats.items()) {
    if (value.is_number())
      table.rows.push_back({{{"name", name}, {"value", number(stats, name.c_str())}}, {}});
    // Each counter of an object with counters by reason becomes a row, such as "lost_by.heartbeat_lost".
    if (!value.is_object()) continue;
    for (const auto& [reason, count] : value.items())
      table.rows.push_back({{{"name", name + "." + reason}, {"value", number(value, reason.c_str())}}, {}});
  }
  return table;
}

std::string show(const Table& table, const char* field, const std::string& value, const Options& options) {
  const auto row = std::find_if(table.rows.begin(), table.rows.end(), [&](const Row& one) {
    return one.values.value(field, json()) == json(value);
  });
  if (row == table.rows.end()) return {};
  if (options.format == Format::json) {
    json one{{"schema_version", kSchemaVersion}};
    one.update(row->values);
    return tools::json_text(one, 2) + "\n";
  }
  std::string text;
  for (const Field& one : table.fields) {
    const auto found = row->values.find(one.name);
    if (found == row->values.end()) continue;
    const std::string shown = one.kind == Kind::bytes && found->is_number_unsigned()
                                  ? bytes_text(found->get<std::uint64_t>(), options.unit)
                              : found->is_string() ? found->get<std::string>()
                                                   : tools::json_text(*found);
    text += fmt::format("{:<14} {}\n", one.header, printable(shown));
  }
  for (const std::string& child : row->children) text += "  " + printable(child) + "\n";
  return text;
}

}  // namespace rtrs::admin
