#include <cmath>

#include "core/proto/reasons.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/urtrsd/control/control.hpp"

namespace rtrs::daemon {

using nlohmann::json;

namespace {

double seconds_of(Nanos time) {
  return static_cast<double>(time) / 1e9;
}

std::string pathname(const std::string& peer) {
  const attributes::PathEnds ends = attributes::path_ends(peer);
  return ends.source + "@" + ends.destination;
}

json extensions_of(wire::Extensions extensions) {
  json names = json::array();
  constexpr std::pair<wire::Extensions, const char*> kNames[] = {
      {wire::Extensions::fence, "fence"},
      {wire::Extensions::generation, "generation"},
      {wire::Extensions::probe, "probe"},
      {wire::Extensions::keys_stay, "keys_stay"},
      {wire::Extensions::data_with_answer, "data_with_answer"}};
  for (const auto& [one, name] : kNames)
    if (has(extensions, one)) names.push_back(name);
  return names;
}

// `told`: errno received from or sent to the peer; 0: use the default errno of `reason`.
void add_reason(json& to, Reason reason, std::uint16_t told) {
  if (reason == Reason::none) return;
  const ReasonText& text = text_of(reason);
  to["reason"] = text.code;
  to["sentence"] = text.sentence;
  to["hint"] = text.hint;
  to["errno"] = told != 0 ? told : text.linux_errno;
}

json by_reason(const std::array<std::uint64_t, kReasonCount>& counts) {
  json all = json::object();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) all[to_string(static_cast<Reason>(i))] = counts[i];
  return all;
}

double micros_of(std::uint64_t nanos) {
  return std::round(static_cast<double>(nanos) / 100) / 10;
}

// With `buckets`, also adds the histogram as pairs [lower bound in nanoseconds, number of requests], from
// which a caller can compute the times between two snapshots.
json times_of(const ServiceTimes::Times& times, bool buckets) {
  json all{{"count", times.count()},
           {"mean_us", micros_of(static_cast<std::uint64_t>(times.mean()))},
           {"p50_us", micros_of(times.percentile(50))},
           {"p99_us", micros_of(times.percentile(99))},
           {"max_us", micros_of(times.max())}};
  if (!buckets) return all;
  json& list = all["buckets"] = json::array();
  for (std::size_t i = 0; i < ServiceTimes::Times::kBuckets; ++i)
    if (times.count(i) != 0) list.push_back({ServiceTimes::Times::lowest_of(i), times.count(i)});
  return all;
}

json path_of(const ServerPathStatus& path, const HeartbeatConfig& heartbeat, Nanos now, bool buckets) {
  const attributes::PathEnds ends = attributes::path_ends(path.peer);
  json one{{"path", path.path},
           {"src_addr", ends.source},
           {"dst_addr", ends.destination},
           {"peer", path.peer},
           {"hca_name", path.device.name},
           {"hca_port", path.device.port},
           {"posting", path.device.posting},
           {"state", to_string(path.state)},
           {"since_s", seconds_of(now - path.since)},
           {"connections", path.connections},
           {"inflight", path.in_service},
           {"heartbeat_s", seconds_of(heartbeat.interval)},
           {"missed_max", heartbeat.missed_max},
           {"dead_s", seconds_of(dead_peer_time(heartbeat))},
           {"extensions", extensions_of(path.extensions)}};
  // Named from the point of view of the client: "writes" is data that the server receives.
  one["reads"] = path.traffic.reads();
  one["read_bytes"] = path.traffic.read_bytes();
  one["writes"] = path.traffic.writes();
  one["write_bytes"] = path.traffic.write_bytes();
  if (path.times != nullptr)
    one["service_time"] = {{"read", times_of(path.times->of(Direction::read), buckets)},
                           {"write", times_of(path.times->of(Direction::write), buckets)}};
  if (path.silent_since < now) one["silent_s"] = seconds_of(now - path.silent_since);
  add_reason(one, path.reason, 0);
  return one;
}

}  // namespace

json to_json(const attributes::ServerModel& model, Nanos now, bool buckets) {
  json sessions = json::array();
  for (const ServerSessionStatus& session : model.sessions) {
    json paths = json::array();
    bool up = false;
    for (const ServerPathStatus& path : session.paths) {
      paths.push_back(path_of(path, model.parameters.heartbeat, now, buckets));
      up = up || path.state == PathState::connected;
    }
    const char* state = up ? "connected" : session.opened ? "disconnected" : "half-open";
    sessions.push_back({{"session", session.session},
                        {"name", session.name},
                        {"state", state},
                        {"identity", session.identity},
                        {"paths", std::move(paths)}});
  }
  json devices = json::array();
  for (const attributes::OpenDevice& device : model.devices)
    for (const attributes::OpenDevice::Use& use : device.uses)
      devices.push_back({{"session", use.session},
                         {"mapping_path", use.mapping_path},
                         {"access_mode", to_string(use.mode)},
                         {"device", device.backing},
                         {"size_bytes", use.size_bytes},
                         {"handle", use.handle}});
  return {{"sessions", std::move(sessions)}, {"devices", std::move(devices)}};
}

json to_json(const ServerStats& transport, const BlockServerStats& block) {
  return {{"requests", transport.requests},
          {"responses", transport.responses},
          {"error_responses", transport.error_responses},
          {"sessions_opened", transport.sessions_opened},
          {"paths_connected", transport.paths_connected},
          {"paths_lost", transport.paths_lost},
          {"lost_by", by_reason(transport.lost_by)},
          {"rejected", transport.rejected},
          {"rejected_by", by_reason(transport.rejected_by)},
          {"crowded_out", transport.crowded_out},
          {"refused_messages", transport.refused_messages},
          {"gated", transport.gated},
          {"fences", transport.fences},
          {"dropped_responses", transport.dropped_responses},
          {"stale_events", transport.stale_events},
          {"storage_operations", block.storage_operations},
          {"stale_results", block.stale_results},
          {"sync_failures", block.sync_failures}};
}

json to_json(const std::vector<LimitInUse>& limits) {
  json all = json::array();
  for (const LimitInUse& one : limits) {
    json& shown = all.emplace_back(json{{"name", one.name}, {"set", one.set}});
    if (one.used) shown["used"] = *one.used;
  }
  return all;
}

json to_json(const std::vector<ExportSpec>& exports, const std::vector<std::string>& lost) {
  json all = json::array();
  for (const ExportSpec& one : exports) {
    json row{{"name", one.name}, {"read_only", one.read_only}};
    if (one.memory_bytes != 0)
      row["memory_bytes"] = one.memory_bytes;
    else
      row["path"] = one.path;
    if (one.force) row["force"] = true;
    if (std::find(lost.begin(), lost.end(), one.name) != lost.end()) row["lost"] = true;
    if (one.delay_ms != 0) row["delay_ms"] = one.delay_ms;
    all.push_back(std::move(row));
  }
  return all;
}

json to_json(const MissingList& missing, Nanos now) {
  json all = json::array();
  for (const auto& [key, item] : missing.items()) {
    json row{{"kind", to_string(key.first)},  {"name", key.second},
             {"sentence", item.why.sentence}, {"errno", item.why.error},
             {"attempts", item.attempts},     {"since_s", seconds_of(now - item.since)}};
    if (item.next != kNever) row["retry_s"] = item.next <= now ? 0.0 : seconds_of(item.next - now);
    all.push_back(std::move(row));
  }
  return all;
}

json to_json(const PathEvent& news) {
  json event{{"peer", news.peer}};
  if (!news.peer.empty()) event["pathname"] = pathname(news.peer);
  if (!news.session_name.empty()) event["session"] = tools::printable(news.session_name);
  switch (news.kind) {
    case PathEvent::Kind::path:
      event["what"] = "path";
      event["path"] = news.path.path % kMaxPaths;
      event["state"] = to_string(news.path.state);
      add_reason(event, news.path.reason, news.path.peer_errno);
      if (!news.refusal_words.empty())
        event["sentence"] = event["sentence"].get<std::string>() + ": " + news.refusal_words;
      break;
    case PathEvent::Kind::link_up:
      event["what"] = "link_up";
      break;
    case PathEvent::Kind::link_down:
      event["what"] = "link_down";
      break;
    case PathEvent::Kind::session_ended:
      event["what"] = "session_ended";
      add_reason(event, news.reason, 0);
      break;
    case PathEvent::Kind::refused:
      event["what"] = "connect_refused";
      add_reason(event, news.reason, news.refusal);
      if (!news.refusal_words.empty())
        event["sentence"] = event["sentence"].get<std::string>() + ": " + news.refusal_words;
      break;
  }
  return event;
}

}  // namespace rtrs::daemon
