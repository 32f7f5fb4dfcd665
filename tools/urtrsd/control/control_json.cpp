#include "core/proto/reasons.hpp"
#include "tools/lib/control/attributes/server_facts.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/times.hpp"
#include "tools/urtrsd/control/control.hpp"

namespace rtrs::daemon {

using nlohmann::json;

namespace {

// `told` is the errno that was received from or sent to the peer; 0 stands for the default errno of `reason`.
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

}  // namespace

json to_json(const attributes::ServerModel& model, Nanos now, bool buckets) {
  json sessions = json::array();
  for (const ServerSessionStatus& session : model.sessions) {
    json paths = json::array();
    for (const ServerPathStatus& path : session.paths)
      paths.push_back(
          tools::to_json(attributes::server_path_facts(), {path, model.parameters.heartbeat, now, buckets}));
    sessions.push_back(tools::to_json(attributes::server_session_facts(), session));
    sessions.back()["paths"] = std::move(paths);
  }
  json devices = json::array();
  for (const attributes::OpenDevice& device : model.devices)
    for (const attributes::OpenDevice::Use& use : device.uses)
      devices.push_back(tools::to_json(attributes::open_device_facts(), {device, use}));
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

json to_json(const std::vector<ExportSpec>& exports, const std::vector<std::string>& lost,
             const MissingList& missing) {
  json all = json::array();
  for (const ExportSpec& one : exports) {
    const auto item = missing.items().find({MissingKind::exported, one.name});
    all.push_back(
        tools::to_json(attributes::export_facts(),
                       {one.name, one.path, one.memory_bytes, one.delay_ms, one.read_only, one.force,
                        std::find(lost.begin(), lost.end(), one.name) != lost.end(),
                        item == missing.items().end() ? std::string() : item->second.why.sentence}));
  }
  return all;
}

json to_json(const MissingList& missing, Nanos now) {
  json all = json::array();
  for (const auto& [key, item] : missing.items()) {
    json row{{"kind", to_string(key.first)},  {"name", key.second},
             {"sentence", item.why.sentence}, {"errno", item.why.error},
             {"attempts", item.attempts},     {"since_s", tools::seconds_of(now - item.since)}};
    if (item.next != kNever) row["retry_s"] = tools::seconds_between(now, item.next);
    all.push_back(std::move(row));
  }
  return all;
}

json to_json(const PathEvent& news) {
  json event{{"peer", news.peer}};
  if (!news.peer.empty()) event["pathname"] = attributes::pathname_of(news.peer);
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

json to_json(const OpenError& error, const std::string& session, const std::string& device) {
  json event{{"session", tools::printable(session)},
             {"device", tools::printable(device)},
             {"errno", error.error},
             {"sentence", error.sentence}};
  if (error.by_rule) event["reason"] = to_string(Reason::not_allowed);
  return event;
}

}  // namespace rtrs::daemon
