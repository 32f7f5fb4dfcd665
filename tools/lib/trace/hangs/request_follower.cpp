#include "tools/lib/trace/hangs/request_follower.hpp"

#include <span>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/immediate.hpp"
#include "core/record/device_name.hpp"
#include "core/record/kinds.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"

namespace rtrs::trace {

namespace {

using spec::DeviceEvent;
using spec::DeviceKind;
using spec::Event;
using spec::Kind;

wire::Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Moment moment_of(const Event& event) {
  return {event.seq, event.now, spec::name_of(event.kind)};
}
Moment moment_of(const DeviceEvent& event) {
  return {event.seq, event.now, spec::name_of(event.kind)};
}

// Traces number the paths of a server by session and path, PathChanged by path.
bool is_of_path(const spec::Key& key, std::uint16_t path) {
  return key.path % kMaxPaths == path % kMaxPaths;
}

// Returns the instance of the session that the devices belong to.
std::optional<unsigned> session_of_devices(unsigned instance) {
  const auto own = static_cast<InstanceId>(instance);
  if (own == kClientDevices) return 0;
  if (!is_devices_of_server(own)) return std::nullopt;
  return session_instance(session_of_instance(own));
}

std::string name_in_open(std::string_view header) {
  const auto type = wire::rnbd::message_type(bytes_of(header));
  if (!type || type.value != wire::rnbd::MsgType::open) return {};
  const auto open = wire::rnbd::parse_open(bytes_of(header));
  return open ? std::string(name_text(open.value.device_name.view()).view()) : std::string();
}

}  // namespace

void RequestFollower::lost(FollowedSession& session, std::uint16_t path, const Moment& at) {
  session.connected.erase(path);
  std::erase_if(session.parked, [&](const auto& one) { return is_of_path(one.second.key, path); });
  for (auto& [number, one] : session.requests) {
    const bool posted = one.phase != Phase::queued && one.phase != Phase::answered;
    if (!posted || !is_of_path(one.key, path)) continue;
    if (session.client) {
      one.phase = Phase::queued;
      one.last = at;
      one.enter(Stage::queue, at.time);
    } else {
      one.path_gone = true;
    }
  }
  // The upper layer answers what it was given even without the path. Everything else ends with the path.
  std::erase_if(session.requests, [](const auto& one) {
    return one.second.path_gone &&
           (one.second.phase == Phase::arrived || one.second.phase == Phase::responded);
  });
}

// A dump of the ring lacks the completions of requests: there the response completes the request.
void RequestFollower::answered(FollowedSession& session, const Event& event) const {
  const unsigned type = spec::imm_type(event.imm);
  if (!counts_only_ || session.depth == 0 || (type != spec::kIoRsp && type != spec::kIoRspInv)) return;
  const std::uint32_t mask = (1U << spec::log2up(session.depth)) - 1;
  session.requests.erase(static_cast<std::uint16_t>(spec::response_id(event.imm) & mask));
}

void RequestFollower::client(FollowedSession& session, const Event& event) {
  const auto found = session.requests.find(event.permit);
  OpenRequest* const open = found == session.requests.end() ? nullptr : &found->second;
  switch (event.kind) {
    case Kind::Submitted: {
      OpenRequest& request = session.requests[event.permit] = OpenRequest{};
      request.begun = request.last = moment_of(event);
      request.reads = event.reads;
      request.service = event.service;
      request.number = event.permit;
      request.bytes = event.data_len;
      request.entered = event.now;
      if (counts_only_) request.phase = Phase::sent;
      return;
    }
    case Kind::PostRequest: {
      if (open == nullptr) return;
      KnownConnection& connection = session.connections[event.key];
      open->phase = Phase::sent;
      open->last = moment_of(event);
      open->enter(Stage::sent, event.now);
      open->key = event.key;
      open->place = ++connection.requests;
      return;
    }
    case Kind::FailedOver:
      if (open != nullptr) open->last = moment_of(event);
      return;
    case Kind::Complete:
      if (open == nullptr) return;
      open->enter(open->stage, event.now);
      ended_ = open->stages;
      session.requests.erase(found);
      return;
    case Kind::ImmReceived:
    case Kind::KeyedResponseReceived:
      return answered(session, event);
    case Kind::WireSent: {
      if (!event.has_imm || spec::imm_type(event.imm) != spec::kIoReq || session.depth == 0) return;
      const auto posted =
          session.requests.find(static_cast<std::uint16_t>(spec::request_buf_id(session.depth, event.imm)));
      const wire::Bytes header = user_header_of(bytes_of(event.bytes));
      if (posted != session.requests.end() && is_rnbd_request(header))
        posted->second.message.assign(reinterpret_cast<const char*>(header.data()), header.size());
      return;
    }
    default:
      return;
  }
}

void RequestFollower::arrived(FollowedSession& session, const Event& event) {
  KnownConnection& connection = session.connections[event.key];
  OpenRequest request;
  request.begun = request.last = moment_of(event);
  // A dump does not say when the request was passed on.
  request.phase = counts_only_ ? Phase::delivered : Phase::arrived;
  request.reads = event.reads;
  request.service = event.key.con == 0;
  request.number = event.chunk;
  request.bytes = event.data_len;
  request.stage = Stage::server;
  request.entered = event.now;
  request.key = event.key;
  request.place = ++connection.requests;
  const auto before = session.requests.find(event.chunk);
  const bool busy = before != session.requests.end() && before->second.phase != Phase::answered;
  (busy ? session.parked : session.requests)[event.chunk] = std::move(request);
}

void RequestFollower::server(FollowedSession& session, const Event& event) {
  if (event.kind == Kind::RequestArrived) return arrived(session, event);
  if (event.kind == Kind::Deliver && event.parked) {
    if (auto parked = session.parked.extract(event.chunk)) {
      session.requests.erase(event.chunk);
      session.requests.insert(std::move(parked));
    }
  }
  const auto found = session.requests.find(event.chunk);
  if (found == session.requests.end()) return;
  OpenRequest& request = found->second;
  switch (event.kind) {
    case Kind::Deliver:
      request.phase = Phase::delivered;
      request.serial = event.serial16;
      request.enter(Stage::storage, event.now);
      break;
    case Kind::InvalidateChunk:
    case Kind::ChunkInvalidated:
      break;
    case Kind::Responded:
      request.enter(Stage::server, event.now);
      ended_ = request.stages;
      if (request.path_gone) return void(session.requests.erase(found));
      request.phase = counts_only_ ? Phase::answered : Phase::responded;
      break;
    case Kind::PostResponse:
      request.phase = Phase::answered;
      break;
    default:
      return;
  }
  request.last = moment_of(event);
}

// Returns the session of the event; null for events of other machines. Begins and ends sessions.
FollowedSession* RequestFollower::session_of(unsigned instance, const Event& event) {
  switch (event.kind) {
    case Kind::BeginClient:
    case Kind::BeginServerSession: {
      FollowedSession& session = sessions_[instance] = FollowedSession{};
      session.client = event.kind == Kind::BeginClient;
      if (!session.client) session.depth = event.settings.depth;
      return nullptr;
    }
    case Kind::BeginServerRegistry:
      // Another process of the server: its sessions are new.
      if (!registries_.insert(instance).second)
        std::erase_if(sessions_, [](const auto& one) { return !one.second.client; });
      return nullptr;
    case Kind::End:
    case Kind::EndSession:
      sessions_.erase(instance);
      return nullptr;
    case Kind::Submitted:
    case Kind::InfoAccepted:
    case Kind::Connected:
    case Kind::Connect:
      sessions_[instance].client = true;
      break;
    case Kind::ConnectRequested:
    case Kind::RequestArrived:
      sessions_.try_emplace(instance);
      break;
    default:
      break;
  }
  const auto found = sessions_.find(instance);
  return found == sessions_.end() ? nullptr : &found->second;
}

void RequestFollower::connection(FollowedSession& session, const Event& event) {
  switch (event.kind) {
    case Kind::Connect:
    case Kind::ConnectRequested: {
      KnownConnection& known = session.connections[event.key] = KnownConnection{};
      known.recon_cnt = event.recon_cnt;
      known.from_start = true;
      if (event.kind == Kind::ConnectRequested) known.path_uuid = event.uuid;
      return;
    }
    case Kind::WireCm:
      if (session.client && event.cm == spec::CmKind::req && event.bytes.size() >= spec::kConReqBytes)
        session.connections[event.key].path_uuid = spec::uuid_at(event.bytes, 12);
      return;
    case Kind::Connected:
      session.depth = event.queue_depth;
      return;
    case Kind::PathChanged:
      if (event.state == spec::PathState::connected)
        session.connected[event.path] = true;
      else
        lost(session, event.path, moment_of(event));
      return;
    case Kind::ConnectionLost:
      if (counts_only_) lost(session, event.key.path, moment_of(event));
      return;
    case Kind::ConnectionClosed:
      session.connections.erase(event.key);
      return;
    case Kind::ImmReceived:
    case Kind::KeyedResponseReceived:
    case Kind::RequestArrived:
      session.connections[event.key].last = session.heard = moment_of(event);
      return;
    default:
      return;
  }
}

void RequestFollower::on(unsigned instance, const Event& event) {
  last_time_ = event.now;
  ended_.reset();
  FollowedSession* const session = session_of(instance, event);
  if (session == nullptr) return;
  connection(*session, event);
  session->client ? client(*session, event) : server(*session, event);
}

// A request number consists of session, chunk and serial (core/driver/block_server.cpp).
OpenRequest* RequestFollower::request_of(FollowedSession& session, std::uint64_t request) {
  const auto found = session.requests.find(static_cast<std::uint16_t>(request >> 16));
  if (found == session.requests.end() || found->second.phase == Phase::answered) return nullptr;
  OpenRequest& open = found->second;
  // A dump does not say which serial number the delivery had.
  if (counts_only_) open.serial = static_cast<std::uint16_t>(request);
  return open.serial == static_cast<std::uint16_t>(request) ? &open : nullptr;
}

void RequestFollower::on_server_devices(FollowedSession& session, unsigned instance,
                                        const DeviceEvent& event) {
  std::uint64_t number = event.request;
  Phase phase = Phase::asked;
  switch (event.kind) {
    case DeviceKind::DeviceRequest:
      phase = Phase::delivered;
      if (std::string name = name_in_open(event.header); !name.empty())
        opening_[{instance, number}] = std::move(name);
      break;
    case DeviceKind::Storage:
    case DeviceKind::OpenExport:
      operations_[{instance, event.operation}] = number;
      break;
    case DeviceKind::WriteBack: {
      const auto name = opening_.find({instance, number});
      const auto id = rnbd_device_of(bytes_of(event.response));
      if (name != opening_.end() && id) session.devices[*id] = name->second;
      return;
    }
    case DeviceKind::MeasureExport:
    case DeviceKind::StorageDone:
    case DeviceKind::ExportOpened:
    case DeviceKind::ExportMeasured: {
      const auto asked = operations_.find({instance, event.operation});
      if (asked == operations_.end()) return;
      number = asked->second;
      phase = event.kind == DeviceKind::MeasureExport ? Phase::asked : Phase::finished;
      break;
    }
    case DeviceKind::Respond:
      opening_.erase({instance, number});
      phase = Phase::finished;
      break;
    default:
      return;
  }
  OpenRequest* const request = request_of(session, number);
  if (request == nullptr) return;
  request->phase = phase;
  request->last = moment_of(event);
  if (event.kind == DeviceKind::DeviceRequest) request->message = event.header;
}

void RequestFollower::on_client_devices(FollowedSession& session, const DeviceEvent& event) {
  if (event.kind == DeviceKind::SendMessage) {
    if (std::string name = name_in_open(event.header); !name.empty())
      opening_[{kClientDevices, event.token}] = std::move(name);
  } else if (event.kind == DeviceKind::MessageDone) {
    const auto opened = opening_.find({kClientDevices, event.token});
    const auto id = rnbd_device_of(bytes_of(event.response));
    if (opened != opening_.end() && id) session.devices[*id] = opened->second;
    if (opened != opening_.end()) opening_.erase(opened);
  }
}

void RequestFollower::on(unsigned instance, const DeviceEvent& event) {
  last_time_ = event.now;
  ended_.reset();
  const auto owner = session_of_devices(instance);
  const auto found = owner ? sessions_.find(*owner) : sessions_.end();
  if (found == sessions_.end()) return;
  FollowedSession& session = found->second;
  session.has_devices = true;
  session.client ? on_client_devices(session, event) : on_server_devices(session, instance, event);
}

}  // namespace rtrs::trace
