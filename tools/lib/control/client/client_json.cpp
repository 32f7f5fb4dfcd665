// Builds the JSON responses about a client.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/bindings/asio/path_syntax.hpp"
#include "core/proto/reasons.hpp"
#include "tools/lib/control/attributes/server_tree.hpp"
#include "tools/lib/control/client/client_facts.hpp"
#include "tools/lib/text/times.hpp"

namespace rtrs::control {

using nlohmann::json;

namespace {

std::string with_prefix(const std::string& address) {
  if (address.empty() || address.rfind("ip:", 0) == 0 || address.rfind("gid:", 0) == 0) return address;
  return "ip:" + address;
}

// Describes the event that the path waits for. Returns an empty text if the path is connected or closed.
std::string waits_of(const PathStatus& status, Nanos now) {
  switch (status.state) {
    case PathState::connecting:
      return "the server's answer to a connect request";
    case PathState::draining:
    case PathState::closing:
      return "its connections to be closed";
    case PathState::waiting:
      return status.retry_at == kNever || status.retry_at == 0
                 ? "another path to be connected first"
                 : fmt::format("the next attempt in {:.1f} s", tools::seconds_between(now, status.retry_at));
    case PathState::absent:
    case PathState::connected:
    case PathState::closed:
      break;
  }
  return {};
}

}  // namespace

std::string source_of(const ClientPathModel& path) {
  return path.peer.empty() ? with_prefix(path.address.source) : attributes::path_ends(path.peer).source;
}

std::string destination_of(const ClientPathModel& path) {
  if (!path.peer.empty()) return attributes::path_ends(path.peer).destination;
  if (path.address.destination.rfind("gid:", 0) == 0) return path.address.destination;
  return attributes::path_ends(" > " + asio::endpoint_text(path.address)).destination;
}

std::string pathname_of(const ClientPathModel& path) {
  const std::string source = source_of(path);
  return source.empty() ? destination_of(path) : source + "@" + destination_of(path);
}

std::string address_of(const ClientPathModel& path) {
  // The text form of a GID address has no port.
  if (path.address.destination.rfind("gid:", 0) == 0) return asio::to_text(path.address);
  const std::string& source = path.address.source;
  return (source.empty() ? "" : source + "@") + asio::endpoint_text(path.address);
}

json to_json(const ClientModel& model, Nanos now) {
  json session = tools::to_json(client_session_facts(), model);
  session["paths"] = json::array();
  for (const ClientPathModel& path : model.paths)
    if (is_shown(path)) session["paths"].push_back(tools::to_json(client_path_facts(), {model, path, now}));
  session["timers"] = json::array();
  for (const ClientTimer& timer : model.timers)
    session["timers"].push_back(
        {{"name", timer.name},
         {"seconds", timer.time == kNever ? json() : json(tools::seconds_of(timer.time))},
         {"origin", timer.origin}});
  json devices = json::array();
  for (const ClientDeviceModel& device : model.devices)
    devices.push_back(tools::to_json(client_device_facts(), {model, device}));
  return {{"sessions", json::array({std::move(session)})}, {"devices", std::move(devices)}};
}

json to_json(const ClientStats& stats) {
  return tools::to_json(client_stats_facts(), stats);
}

json debug_json(const ClientModel& model, Nanos now) {
  json paths = json::array();
  for (const ClientPathModel& path : model.paths) {
    if (!is_shown(path)) continue;
    json one{{"path", pathname_of(path)},
             {"state", to_string(path.status.state)},
             {"since_s", tools::seconds_between(path.status.since, now)},
             {"inflight", path.status.inflight},
             {"waits", waits_of(path.status, now)}};
    add_reason(one, path.status.reason, path.status.peer_errno, model.fabric);
    paths.push_back(std::move(one));
  }
  json devices = json::array();
  for (const ClientDeviceModel& device : model.devices)
    devices.push_back({{"device", device.name}, {"state", device.state}, {"users", device.users}});
  json session{{"session", model.session},     {"under_way", model.under_way},
               {"queued", model.queued},       {"permits_given_up", model.stats.permits_given_up},
               {"oldest_request", nullptr},    {"paths", std::move(paths)},
               {"devices", std::move(devices)}};
  if (model.oldest)
    session["oldest_request"] = {{"age_s", tools::seconds_between(model.oldest->since, now)},
                                 {"path", model.oldest->path},
                                 {"connection", model.oldest->con}};
  return {{"sessions", json::array({std::move(session)})}};
}

json event_json(const PathEvent& news, std::string_view fabric) {
  json event;
  switch (news.kind) {
    case PathEvent::Kind::path:
      event["what"] = "path";
      event["path"] = news.path.path % kMaxPaths;
      event["state"] = to_string(news.path.state);
      event["attempt"] = news.path.attempt;
      if (news.path.state == PathState::waiting && news.path.delay != kNever)
        event["next_s"] = tools::seconds_of(news.path.delay);
      add_reason(event, news.path.reason, news.path.peer_errno, fabric);
      break;
    case PathEvent::Kind::link_up:
      event["what"] = "link_up";
      break;
    case PathEvent::Kind::link_down:
      event["what"] = "link_down";
      break;
    case PathEvent::Kind::session_ended:
    case PathEvent::Kind::refused:
      event["what"] = "session_ended";
      add_reason(event, news.reason, 0, fabric);
      break;
  }
  return event;
}

json failover_json(const ClientPathModel& path, std::uint64_t& before) {
  const std::uint64_t now = path.status.failovers;
  const std::uint64_t then = std::exchange(before, now);
  // The count is smaller if the statistics were reset, or if the index now belongs to another path.
  const std::uint64_t requests = now < then ? now : now - then;
  if (requests == 0) return nullptr;
  return {{"what", "failover"}, {"path", path.path}, {"pathname", pathname_of(path)}, {"requests", requests}};
}

std::optional<MultipathPolicy> parse_policy(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : static_cast<char>(c);
  });
  for (const auto& [number, brief, policy] : {std::tuple{"0", "rr", MultipathPolicy::round_robin},
                                              {"1", "mi", MultipathPolicy::min_inflight},
                                              {"2", "ml", MultipathPolicy::min_latency}}) {
    if (text == number || text == brief || text == to_string(policy)) return policy;
  }
  return std::nullopt;
}

const char* short_name(MultipathPolicy policy) noexcept {
  return policy == MultipathPolicy::round_robin    ? "RR"
         : policy == MultipathPolicy::min_inflight ? "MI"
                                                   : "ML";
}

}  // namespace rtrs::control
