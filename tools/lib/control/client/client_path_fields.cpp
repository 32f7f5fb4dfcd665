#include "tools/lib/control/client/client_path_fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "core/proto/reasons.hpp"

namespace rtrs::control {

using nlohmann::json;

namespace {

using At = ClientPathAt;
using Field = tools::Field;
using Kind = Field::Kind;
using Value = Field::Value;

double micros_of(std::uint64_t time) {
  return std::round(static_cast<double>(time) / 100) / 10;
}

double seconds_until(Nanos time, Nanos now) {
  return seconds_of(time > now ? time - now : 0);
}

json reason_of(const At& at, const char* key) {
  const PathStatus& status = at.path.status;
  json why = json::object();
  add_reason(why, status.reason, status.peer_errno);
  if (status.last_cause != Reason::none)
    why["sentence"] = fmt::format("{}, the last of them: {}", why.value("sentence", ""),
                                  words_of(status.last_cause, 0).sentence);
  return why.value(key, json());
}

json rtt_of(const At& at) {
  const Nanos latency = at.path.status.heartbeat_latency;
  return latency == 0 ? json() : json(micros_of(static_cast<std::uint64_t>(latency)));
}

json next_of(const At& at) {
  const PathStatus& status = at.path.status;
  if (status.state != PathState::waiting || status.retry_at == 0 || status.retry_at == kNever) return {};
  return seconds_until(status.retry_at, at.now);
}

// Returns the seconds since `then`; null if `then` is kNever, which means that it never happened.
json seconds_since(Nanos then, Nanos now) {
  return then < now ? json(seconds_of(now - then)) : json();
}

constexpr Field text(const char* name, const char* header, const char* what, bool by_default = false,
                     bool optional = false, const char* words = nullptr) {
  return {name, header, what, Kind::text, by_default, false, Value::usual, optional, words};
}
constexpr Field real(const char* name, const char* header, const char* what, bool optional = false) {
  return {name, header, what, Kind::number, false, false, Value::real, optional};
}
constexpr Field count(const char* name, const char* header, const char* what, bool by_default = false) {
  return {name, header, what, Kind::number, by_default, true};
}
constexpr Field plain(const char* name, const char* header, const char* what, bool by_default = false,
                      bool optional = false) {
  return {name, header, what, Kind::number, by_default, false, Value::usual, optional};
}

constexpr const char* kStates = "connecting|connected|draining|waiting|closing|closed";
constexpr const char* kP99 = "99th percentile; can be up to 2x too high";

constexpr ClientPathField kFields[] = {
    {text("sessname", "Session name", "name of the session", true), nullptr},
    {plain("path", "Index", "index of the path; can be used as PATH", true),
     [](const At& at) -> json { return at.path.path; }},
    {text("pathname", "Path", "SRC@DST, both ends: names it too", true),
     [](const At& at) -> json { return pathname_of(at.path); }},
    {text("hca_name", "HCA", "RDMA device, provider of libfabric, or tcp", true),
     [](const At& at) -> json { return at.path.device.name; }},
    {plain("hca_port", "Port", "of the RDMA device, from 1; not the TCP port"),
     [](const At& at) -> json { return at.path.device.port; }},
    {text("posting", "Posting", "over RDMA: send or wr, as rdma_post= has it"),
     [](const At& at) -> json { return at.path.device.posting; }},
    {text("state", "State", "connecting, connected, draining, waiting ...", true, false, kStates),
     [](const At& at) -> json { return to_string(at.path.status.state); }},
    // The names follow rnbd, which counts from the view of the client: the client transmits what it writes.
    {{"tx_bytes", "TX", "bytes that were written", Kind::bytes, true, true},
     [](const At& at) -> json { return at.path.status.traffic.write_bytes(); },
     "/write_bytes"},
    {{"rx_bytes", "RX", "bytes that were read", Kind::bytes, true, true},
     [](const At& at) -> json { return at.path.status.traffic.read_bytes(); },
     "/read_bytes"},
    {text("src_addr", "Client address", "of this side"),
     [](const At& at) -> json { return source_of(at.path); }},
    {text("dst_addr", "Server address", "of the server"),
     [](const At& at) -> json { return destination_of(at.path); }},
    {count("inflights", "Inflight", "requests that are not answered yet"),
     [](const At& at) -> json { return at.path.status.inflight; }, "/inflight"},
    {count("reconnects", "Reconnects", "times that it came back"),
     [](const At& at) -> json { return at.path.status.reconnects; }},
    {real("rtt_us", "RTT/us", "microseconds from a heartbeat to its answer", true), rtt_of},
    {plain("attempt", "Attempt", "to connect, since it was connected"),
     [](const At& at) -> json { return at.path.status.attempt; }},
    {real("next_s", "Next/s", "seconds until the next attempt", true), next_of},
    {real("reconnect_min_s", "Pause min/s", "seconds before the second attempt"),
     [](const At& at) -> json { return seconds_of(at.model.reconnect_min); }},
    {real("reconnect_max_s", "Pause max/s", "the longest, without the part that is drawn"),
     [](const At& at) -> json { return seconds_of(at.model.reconnect_max); }},
    {count("failed_attempts", "Failed", "attempts to connect that failed"),
     [](const At& at) -> json { return at.path.status.failed_attempts; }},
    {count("failovers", "Failovers", "requests taken over from other paths"),
     [](const At& at) -> json { return at.path.status.failovers; }},
    {count("reads", "Reads", "requests to read"),
     [](const At& at) -> json { return at.path.status.traffic.reads(); }},
    {count("writes", "Writes", "requests to write"),
     [](const At& at) -> json { return at.path.status.traffic.writes(); }},
    {real("read_mean_us", "Read mean/us", "microseconds until the answer", true),
     [](const At& at) -> json { return micros_of(at.path.reads.mean()); }, "/answer_time/read/mean_us"},
    {real("read_p99_us", "Read p99/us", kP99, true),
     [](const At& at) -> json { return micros_of(at.path.reads.at_most(99)); }, "/answer_time/read/p99_us"},
    {real("read_max_us", "Read max/us", "the slowest read", true),
     [](const At& at) -> json { return micros_of(at.path.reads.max()); }, "/answer_time/read/max_us"},
    {real("write_mean_us", "Write mean/us", "of the writes", true),
     [](const At& at) -> json { return micros_of(at.path.writes.mean()); }, "/answer_time/write/mean_us"},
    {real("write_p99_us", "Write p99/us", kP99, true),
     [](const At& at) -> json { return micros_of(at.path.writes.at_most(99)); }, "/answer_time/write/p99_us"},
    {real("write_max_us", "Write max/us", "the slowest write", true),
     [](const At& at) -> json { return micros_of(at.path.writes.max()); }, "/answer_time/write/max_us"},
    {real("heartbeat_s", "Heartbeat/s", "seconds between two heartbeats of this side"),
     [](const At& at) -> json { return seconds_of(at.model.heartbeat.interval); }},
    {plain("missed_max", "Missed max", "heartbeats that may stay without an answer"),
     [](const At& at) -> json { return at.model.heartbeat.missed_max; }},
    {real("dead_s", "Dead after/s", "seconds of silence that end the path"),
     [](const At& at) -> json { return seconds_of(dead_peer_time(at.model.heartbeat)); }},
    {real("since_s", "Since/s", "seconds since the path came into this state"),
     [](const At& at) -> json { return seconds_until(at.now, at.path.status.since); }},
    {real("silent_s", "Silent/s", "seconds since a heartbeat without an answer", true),
     [](const At& at) { return seconds_since(at.path.status.silent_since, at.now); }},
    {real("lost_s", "Lost/s", "seconds since its last connection ended", true),
     [](const At& at) { return seconds_since(at.path.status.lost_at, at.now); }},
    {text("reason", "Reason", "why it was lost or refused last", false, true),
     [](const At& at) { return reason_of(at, "reason"); }},
    {text("sentence", "Meaning", "of the reason", false, true),
     [](const At& at) { return reason_of(at, "sentence"); }},
    {plain("errno", "Errno", "of the reason", false, true),
     [](const At& at) { return reason_of(at, "errno"); }},
    {text("hint", "What to do", "about the reason", false, true),
     [](const At& at) { return reason_of(at, "hint"); }},
    {text("address", "Address", "of the server, as path= has it"),
     [](const At& at) -> json { return address_of(at.path); }, nullptr, false},
    {plain("max_attempts", "Attempts max", "to connect; negative: no bound"),
     [](const At& at) -> json { return at.model.max_reconnect_attempts; }, nullptr, false},
    {count("ios", "IOs", "requests that were answered"),
     [](const At& at) -> json { return at.path.status.ios; }, nullptr, false},
    {count("read_count", "Reads timed", "reads in the times above"),
     [](const At& at) -> json { return at.path.reads.count(); }, "/answer_time/read/count", false},
    {count("write_count", "Writes timed", "writes in the times above"),
     [](const At& at) -> json { return at.path.writes.count(); }, "/answer_time/write/count", false},
};

}  // namespace

std::span<const ClientPathField> client_path_fields() {
  return kFields;
}

json to_json(const ClientPathAt& at) {
  json path = json::object();
  for (const ClientPathField& one : kFields) {
    json value = one.get == nullptr ? json() : one.get(at);
    if (value.is_null()) continue;
    if (one.old_name != nullptr) path[json::json_pointer(one.old_name)] = value;
    path[one.field.name] = std::move(value);
  }
  return path;
}

double seconds_of(Nanos time) {
  return static_cast<double>(time) / 1e9;
}

void add_reason(json& to, Reason reason, std::uint16_t peer_errno) {
  if (reason == Reason::none) return;
  const ReasonText text = words_of(reason, peer_errno);
  to["reason"] = text.code;
  to["sentence"] = peer_errno == 0 ? std::string(text.sentence)
                                   : fmt::format("{}: {}", text.sentence, std::strerror(peer_errno));
  to["hint"] = text.hint;
  to["errno"] = peer_errno != 0 ? peer_errno : text.linux_errno;
}

}  // namespace rtrs::control
