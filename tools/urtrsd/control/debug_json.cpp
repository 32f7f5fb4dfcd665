#include "tools/urtrsd/control/debug_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/control/attributes/server_facts.hpp"
#include "tools/lib/text/times.hpp"

namespace rtrs::daemon {

using nlohmann::json;
using wire::rnbd::MsgType;

namespace {

std::string path_name(const ServerSessionStatus& session, unsigned index) {
  const auto path = std::find_if(session.paths.begin(), session.paths.end(),
                                 [index](const ServerPathStatus& one) { return one.path == index; });
  if (path == session.paths.end()) return "?";
  return attributes::pathname_of(path->peer);
}

const char* message_name(wire::Bytes header) {
  const auto type = wire::rnbd::message_type(header);
  if (!type) return "unknown";
  switch (type.value) {
    case MsgType::sess_info:
      return "sess_info";
    case MsgType::open:
      return "open";
    case MsgType::close:
      return "close";
    case MsgType::io:
      return "io";
    case MsgType::sess_info_rsp:
    case MsgType::open_rsp:
      break;
  }
  return "unknown";
}

std::string words_of(const RequestInFlight& request, const std::string& storage, Nanos now) {
  using Waits = RequestInFlight::Waits;
  const std::string time = fmt::format(" since {:.1f} s", tools::seconds_between(request.since, now));
  switch (request.waits) {
    case Waits::key:
      return "waits for the invalidation of its key" + time;
    case Waits::gate:
      return fmt::format("gated behind permit {}, which an older request of another path uses{}",
                         request.chunk, time);
    case Waits::devices:
      return "waits for another operation of its device" + time;
    case Waits::storage:
      return "in storage" + time + (storage.empty() ? "" : ": " + storage);
    case Waits::open:
      return "its export is being opened" + time;
    case Waits::send_queue:
      return "its response waits for a send queue slot" + time;
  }
  return "unknown";
}

// Describes what a path waits for; empty if it waits for nothing.
std::string words_of(const ServerPathStatus& path, Nanos now) {
  switch (path.state) {
    case PathState::connecting:
      return fmt::format("{} of {} connections exist; closed in {:.1f} s unless the client completes it",
                         path.connections, path.connections_wanted,
                         tools::seconds_between(now, path.handshake_deadline));
    case PathState::connected:
      return path.in_service == 0
                 ? std::string()
                 : fmt::format("{} requests are in progress, {} responses wait for a send queue slot",
                               path.in_service, path.answers_waiting);
    default:
      break;
  }
  return fmt::format("waits for {} connections to close and {} requests to end", path.connections,
                     path.in_service);
}

const char* to_string(rnbd::ServerDevices::DeviceState state) {
  using State = rnbd::ServerDevices::DeviceState;
  switch (state) {
    case State::vacant:
      break;
    case State::queued:
      return "queued";
    case State::opening:
      return "opening";
    case State::open:
      return "open";
    case State::closing:
      return "closing";
  }
  return "vacant";
}

}  // namespace

std::optional<DumpPlace> parse_place(const std::string& text) {
  if (text.empty()) return DumpPlace{};
  DumpPlace place;
  const char* const end = text.data() + text.size();
  const auto session = std::from_chars(text.data(), end, place.session);
  if (session.ec != std::errc{} || session.ptr == end || *session.ptr != ':') return std::nullopt;
  const auto chunk = std::from_chars(session.ptr + 1, end, place.chunk);
  if (chunk.ec != std::errc{} || chunk.ptr != end) return std::nullopt;
  return place;
}

std::string to_text(DumpPlace place) {
  return fmt::format("{}:{}", place.session, place.chunk);
}

json to_json(const RequestInFlight& request, const ServerSessionStatus& session, const std::string& device,
             const std::string& storage, Nanos now) {
  json one{{"session", session.name},
           {"path", path_name(session, request.path)},
           {"connection", request.con},
           {"permit", request.chunk},
           {"direction", request.direction == Direction::read ? "read" : "write"},
           {"message", message_name(request.user_header)},
           {"state", rtrs::to_string(request.waits)},
           {"since_s", tools::seconds_between(request.since, now)},
           {"age_s", tools::seconds_between(request.arrived, now)},
           {"waits", words_of(request, storage, now)}};
  if (!storage.empty()) one["storage"] = storage;
  if (!device.empty()) one["device"] = device;
  if (const auto io = wire::rnbd::parse_io(request.user_header)) {
    one["opcode"] = wire::rnbd::to_string(io.value.opcode);
    one["sector"] = io.value.sector;
    one["sectors"] = io.value.size / wire::rnbd::kSectorBytes;
  }
  return one;
}

json waits_of(const ServerSessionStatus& session, const rnbd::ServerDevices* devices, Nanos now) {
  json paths = json::array();
  for (const ServerPathStatus& path : session.paths) {
    json one{{"path", path_name(session, path.path)},
             {"state", rtrs::to_string(path.state)},
             {"since_s", tools::seconds_between(path.since, now)},
             {"connections", path.connections},
             {"connections_wanted", path.connections_wanted},
             {"inflight", path.in_service},
             {"answers_waiting", path.answers_waiting},
             {"fences_waiting", path.fences_waiting},
             {"waits", words_of(path, now)}};
    if (path.heartbeat_deadline != kNever)
      one["heartbeat_in_s"] = tools::seconds_between(now, path.heartbeat_deadline);
    if (path.reason != Reason::none) one["reason"] = rtrs::to_string(path.reason);
    paths.push_back(std::move(one));
  }
  json all{{"session", session.name},
           {"index", session.session},
           {"closing", session.closing},
           {"paths", std::move(paths)}};
  json& held = all["devices"] = json::array();
  if (devices == nullptr) return all;
  for (const rnbd::ServerDevices::Device& device : *devices)
    if (device.state != rnbd::ServerDevices::DeviceState::vacant)
      held.push_back({{"device", std::string(device.name.view())},
                      {"state", to_string(device.state)},
                      {"inflight", device.in_flight},
                      {"opens_waiting", device.waiters},
                      {"syncs_running", device.syncs_running}});
  return all;
}

}  // namespace rtrs::daemon
