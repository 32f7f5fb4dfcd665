#include "tools/urtrs/views/views.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/proto/reasons.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "tools/lib/text/json_text.hpp"

namespace rtrs::admin {

using nlohmann::json;
using Kind = Field::Kind;

namespace {

std::string path_name(const json& path) {
  return path.value("src_addr", "") + "@" + path.value("dst_addr", "");
}

json row_of(const json& session, const json& path) {
  json row = path;
  row["sessname"] = session.value("name", "");
  row["pathname"] = path_name(path);
  row["posting"] = path.value("posting", "");
  // As in rnbd, from the point of view of the server, which sends the data that clients read.
  row["tx_bytes"] = number(path, "read_bytes");
  row["rx_bytes"] = number(path, "write_bytes");
  row["inflights"] = number(path, "inflight");
  for (const char* key : {"path", "hca_port", "connections", "reads", "writes"}) row[key] = number(path, key);
  for (const char* direction : {"read", "write"}) {
    const json times = path.value("service_time", json::object()).value(direction, json::object());
    for (const char* key : {"p50_us", "p99_us", "max_us"})
      if (times.contains(key)) row[std::string(direction) + "_" + key] = times[key];
  }
  return row;
}

std::string below(const json& path) {
  const std::string device = path.value("hca_name", "");
  std::string line = fmt::format("path {}  {}  {}{}{}", number(path, "path"), path_name(path), device,
                                 device.empty() ? "" : "  ", path.value("state", ""));
  if (path.contains("silent_s")) line += fmt::format("  silent for {:.0f} s", path.value("silent_s", 0.0));
  if (path.contains("reason")) line += fmt::format(" ({})", path.value("reason", ""));
  return line + fmt::format("  inflight {}", number(path, "inflight"));
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
  // Tests may use signed integers.
  if (found->is_number_unsigned() || (found->is_number_integer() && found->get<std::int64_t>() >= 0))
    return found->get<std::uint64_t>();
  throw UnexpectedAnswer(fmt::format("\"{}\" is {}", key, tools::json_text(*found)));
}

Table sessions(const json& shown) {
  Table table{
      "sessions",
      {{"sessname", "Session name", "name of the session"},
       Field{"state", "State", "connected, disconnected or half-open"}.of("connected|disconnected|half-open"),
       Field{"path_uu", "PS", "one U for each path that is up, one _ for each that is not"}.of("^[U_]*$"),
       {"tx_bytes", "TX", "bytes that clients read", Kind::bytes, true, true},
       {"rx_bytes", "RX", "bytes that clients wrote", Kind::bytes, true, true},
       {"inflights", "Inflight", "requests that are not answered yet", Kind::number, true, true},
       {"path_cnt", "Paths", "paths", Kind::number, false},
       {"act_path_cnt", "Active", "paths that are up", Kind::number, false},
       {"identity", "Identity", "that the client showed by TLS or a shared key; else empty", Kind::text,
        false},
       {"reads", "Reads", "requests to read", Kind::number, false, true},
       {"writes", "Writes", "requests to write", Kind::number, false, true}},
      {}};
  for (const json& session : shown.at("sessions")) {
    Row row;
    std::string up;
    std::uint64_t active = 0;
    std::uint64_t sums[5] = {};
    for (const json& path : session.value("paths", json::array())) {
      const bool connected = path.value("state", "") == "connected";
      active += connected;
      up += connected ? 'U' : '_';
      const char* keys[] = {"read_bytes", "write_bytes", "inflight", "reads", "writes"};
      for (std::size_t i = 0; i < std::size(keys); ++i) sums[i] += number(path, keys[i]);
      row.children.push_back(below(path));
    }
    row.values = {{"sessname", session.value("name", "")},
                  {"state", session.value("state", "")},
                  {"path_uu", up},
                  {"tx_bytes", sums[0]},
                  {"rx_bytes", sums[1]},
                  {"inflights", sums[2]},
                  {"path_cnt", up.size()},
                  {"act_path_cnt", active},
                  {"identity", session.value("identity", "")},
                  {"reads", sums[3]},
                  {"writes", sums[4]}};
    table.rows.push_back(std::move(row));
  }
  return table;
}

namespace {

std::vector<Field> path_fields() {
  return {
      {"sessname", "Session name", "name of the session"},
      {"path", "Index", "of the path: names it where PATH is asked for", Kind::number},
      {"pathname", "Path", "CLIENT@SERVER, both ends: names it too"},
      {"hca_name", "HCA", "RDMA device (host channel adapter), provider of libfabric, or tcp"},
      {"hca_port", "Port", "of the RDMA device, counted from 1; not the TCP port", Kind::number, false},
      {"posting", "Posting", "over RDMA: send or wr, as --rdma-post has it", Kind::text, false},
      {"state", "State", "connecting, connected or closing"},
      {"tx_bytes", "TX", "bytes that clients read", Kind::bytes, true, true},
      {"rx_bytes", "RX", "bytes that clients wrote", Kind::bytes, true, true},
      {"src_addr", "Client address", "of the client", Kind::text, false},
      {"dst_addr", "Server address", "of this server", Kind::text, false},
      {"inflights", "Inflight", "requests that are not answered yet", Kind::number, false, true},
      {"connections", "Connections", "that are open", Kind::number, false, true},
      {"reads", "Reads", "requests to read", Kind::number, false, true},
      {"writes", "Writes", "requests to write", Kind::number, false, true},
      Field{"read_p50_us", "Read p50/us", "microseconds from request to answer: half of the reads",
            Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"read_p99_us", "Read p99/us", "99 of 100 reads", Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"read_max_us", "Read max/us", "the slowest read", Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"write_p50_us", "Write p50/us", "half of the writes", Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"write_p99_us", "Write p99/us", "99 of 100 writes", Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"write_max_us", "Write max/us", "the slowest write", Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"heartbeat_s", "Heartbeat/s", "seconds between two heartbeats of this side", Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"missed_max", "Missed max", "heartbeats that may stay without an answer", Kind::number, false}
          .if_known(),
      Field{"dead_s", "Dead after/s", "seconds of silence that end the path at the latest", Kind::number,
            false}
          .as(Field::Value::real)
          .if_known(),
      Field{"since_s", "Since/s", "seconds since the path came into this state", Kind::number, false}.as(
          Field::Value::real),
      Field{"silent_s", "Silent/s", "seconds since a heartbeat that nothing came after", Kind::number, false}
          .as(Field::Value::real)
          .if_known(),
      Field{"reason", "Reason", "why it closes", Kind::text, false}.if_known(),
      Field{"sentence", "Meaning", "of the reason", Kind::text, false}.if_known(),
      Field{"errno", "Errno", "of the reason", Kind::number, false}.if_known(),
      Field{"hint", "What to do", "about the reason", Kind::text, false}.if_known(),
      Field{"extensions", "Extensions", "of the protocol, that were granted", Kind::text, false}.as(
          Field::Value::list)};
}

}  // namespace

Table paths(const json& shown, const std::string& of) {
  Table table{"paths", path_fields(), {}};
  for (const json& session : shown.at("sessions")) {
    if (!of.empty() && session.value("name", "") != of) continue;
    for (const json& path : session.value("paths", json::array()))
      table.rows.push_back({row_of(session, path), {}});
  }
  return table;
}

Table devices(const json& shown, const std::string& of) {
  Table table{"devices",
              {{"sessname", "Session name", "name of the session"},
               {"mapping_path", "Mapping path", "as the client asked for it"},
               {"device", "Device", "what is exported"},
               Field{"access_mode", "Access mode", "ro, rw or migration"}.of("ro|rw|migration"),
               {"size_bytes", "Size", "of the device", Kind::bytes},
               {"handle", "Handle", "number of this open device", Kind::number, false}},
              {}};
  for (const json& device : shown.at("devices")) {
    if (!of.empty() && device.value("session", "") != of) continue;
    json row = device;
    row["sessname"] = device.value("session", "");
    row["size_bytes"] = number(device, "size_bytes");
    row["handle"] = number(device, "handle");
    table.rows.push_back({std::move(row), {}});
  }
  return table;
}

namespace {

// Entry of the export in "missing"; nullptr if it is served.
const json* missing_export(const json& shown, const std::string& name) {
  const auto all = shown.find("missing");
  if (all == shown.end()) return nullptr;  // urtrsd of an older release
  for (const json& one : *all)
    if (one.value("kind", "") == "export" && one.value("name", "") == name) return &one;
  return nullptr;
}

}  // namespace

Table exports(const json& shown) {
  bool some_missing = false;
  for (const json& one : shown.at("exports"))
    some_missing =
        some_missing || one.value("lost", false) || missing_export(shown, one.value("name", "")) != nullptr;
  Table table{"exports",
              {{"name", "Name", "for clients"},
               {"source", "Source", "file, block device or memory"},
               Field{"access", "Access", "ro or rw"}.of("ro|rw"),
               {"delay_ms", "Delay", "milliseconds that every operation waits", Kind::number, false},
               Field{"state", "State", "served, missing or lost; shown unless all are served", Kind::text,
                     some_missing}
                   .of("served|missing|lost"),
               {"why", "Why", "it is missing or lost; likewise", Kind::text, some_missing}},
              {}};
  for (const json& one : shown.at("exports")) {
    const std::string source =
        one.contains("path") ? one.value("path", "") : "mem:" + std::to_string(number(one, "memory_bytes"));
    const json* const missing = missing_export(shown, one.value("name", ""));
    const bool lost = one.value("lost", false);
    table.rows.push_back({{{"name", one.value("name", "")},
                           {"source", source},
                           {"access", one.value("read_only", false) ? "ro" : "rw"},
                           {"delay_ms", number(one, "delay_ms")},
                           {"state", lost                 ? "lost"
                                     : missing != nullptr ? "missing"
                                                          : "served"},
                           {"why", lost                 ? "its NBD server is lost; the log says why"
                                   : missing != nullptr ? missing->value("sentence", "")
                                                        : ""}},
                          {}});
  }
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
      line(fmt::format("  device {} {}: {} requests", device.value("device", ""), device.value("state", ""),
                       number(device, "inflight")));
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
    // Counters by reason become rows such as "lost_by.heartbeat_lost".
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
