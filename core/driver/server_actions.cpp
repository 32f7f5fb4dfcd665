// Performs the actions of a server session.
#include <algorithm>
#include <new>

#include "core/driver/probes.hpp"
#include "core/driver/server_impl.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

namespace {

// Encodes a server message into `room`. Precondition: the message has a wire form and fits.
template <class Message, std::size_t Size>
std::span<const std::byte> encoded(const Message& message, std::array<std::byte, Size>& room) noexcept {
  const std::size_t length = wire::encode(message, room);
  RTRS_ASSERT(length != 0);
  return std::span<const std::byte>(room).first(length);
}

}  // namespace

void Server::Impl::perform(Fabric& fabric, Nanos now, Session& session, const PostResponse& action) {
  const StoredRequest& request = session.requests.current(action.chunk);
  WorkRequest work;
  work.key = action.key;
  if (action.write_data) {
    WorkRequest data = work;
    data.op = WorkRequest::Op::write;
    data.rkey = request.desc.key;
    data.remote_addr = request.desc.addr;
    data.part_count = 1;
    // Sends no more than requested, because the rest of the chunk holds data of earlier requests.
    data.parts[0] = LocalPart{session.chunks.id, action.chunk * config.chunk_size,
                              std::min(request.desc.len, request.data_len)};
    if (action.data_with_answer)
      work = data;
    else
      push(fabric, now, session, data);
  }
  if (action.send_invalidate) {
    WorkRequest invalidation = work;
    invalidation.op = WorkRequest::Op::send_inv;
    invalidation.rkey = request.desc.key;
    push(fabric, now, session, invalidation);
  }
  work.imm = action.imm;
  work.cookie = action.cookie;
  work.signalled = action.cookie != 0;
  work.op = WorkRequest::Op::write_imm;
  std::array<std::byte, wire::kRkeyRspBytes> message;
  if (action.fresh_key) {
    const RemoteKey& remote_key = session.path_of(action.key).chunk_keys[action.chunk];
    const auto rkey = fabric.rebind(action.key, remote_key.id);
    if (!rkey) {
      session.failed = action.key;
      return;
    }
    work.op = WorkRequest::Op::send_imm;
    work.inline_bytes = encoded(wire::RkeyRsp{action.chunk, *rkey}, message);
  }
  push(fabric, now, session, work);
  session.path_of(action.key).times->of(request.direction).record(now - request.arrived);
  ++counted.responses;
  RTRS_PROBE(rtrs_srv, send_io_resp_imm, action.key.number(), action.chunk, action.imm);
  if (wire::decode_io_rsp(action.imm).error != 0) ++counted.error_responses;
}

void Server::Impl::perform(Fabric& fabric, Nanos now, Session& session, const PostImm& action) {
  WorkRequest work;
  work.key = action.key;
  work.op = WorkRequest::Op::write_imm;
  work.imm = action.imm;
  work.cookie = action.cookie;
  work.signalled = action.cookie != 0;
  push(fabric, now, session, work);
}

void Server::Impl::control(Fabric& fabric, Nanos now, Session& session, const ProbeDelivery& action) {
  WorkRequest work;
  work.key = action.key;
  work.op = WorkRequest::Op::write;
  work.cookie = action.cookie;
  work.signalled = true;
  push(fabric, now, session, work);
}

void Server::Impl::perform(Fabric& fabric, Nanos, Session&, const PostReceive& action) {
  // INFO_REQ is the longest message that a server accepts.
  const bool empty = action.kind == ReceiveKind::empty;
  fabric.post_receive(action.key, action.count, empty ? 0U : static_cast<std::uint32_t>(wire::kInfoReqBytes));
}

void Server::Impl::perform(Fabric&, Nanos, Session& session, const Deliver& action) {
  session.requests.select(action.chunk, action.key);
  const StoredRequest& request = session.requests.current(action.chunk);
  session.path_of(action.key).traffic.add(request.direction, request.data_len + request.usr_len);
  const std::uint16_t index = session.machine.index();
  events.push() = {
      ServerEvent::Kind::request,
      request.direction,
      index,
      RequestId{index, action.chunk, action.serial},
      session.chunks.bytes.subspan(std::size_t{action.chunk} * config.chunk_size, request.data_len),
      session.requests.user_header(action.chunk),
      {}};
  ++counted.requests;
}

void Server::Impl::perform(Fabric& fabric, Nanos, Session& session, const InvalidateChunk& action) {
  session.requests.select(action.chunk, action.key);
  const RemoteKey& remote_key = session.path_of(action.key).chunk_keys[action.chunk];
  fabric.invalidate(action.key, remote_key.id, action.chunk);
  invalidates = true;
}

void Server::Impl::perform(Fabric& fabric, Nanos now, Session& session, const ServerControlAction& action) {
  session.timer_changed = true;
  std::visit([&, this](const auto& one) { this->control(fabric, now, session, one); }, action);
}

void Server::Impl::control(Fabric& fabric, Nanos now, Session& session, const Accept& action) {
  wire::ConnRsp answer;
  answer.queue_depth = config.queue_depth;
  answer.max_io_size = config.chunk_size - config.max_hdr_size;
  answer.max_hdr_size = config.max_hdr_size;
  answer.flags = action.flags;
  std::array<std::byte, wire::kConnRspBytes> bytes;
  std::array<std::byte, wire::kConnRspBytes> refusal;
  // The additional receive is for the INFO_REQ; it is posted before those of the connected path.
  ConnectionParams params;
  params.send_depth = config.send_depth;
  const bool probe = has(wire::granted_extensions(action.flags), wire::Extensions::probe);
  params.receive_depth = server_receives(config, action.key.con, probe) + 1;
  // Each chunk's key is invalidated when a request arrives and renewed with the response.
  params.key_depth = session.always_invalidate ? 2U * config.queue_depth : 0U;
  params.refusal = encoded(wire::make_reject(wire::linux_errno::kEnomem), refusal);
  const auto message = encoded(answer, bytes);
  tap.cm(instance_of(session), now, action.key, trace::WireCmKind::rep, true, message);
  fabric.accept(action.request, action.key, params, message);
  if (action.key.con != 0) return;
  note_peer(session.path_of(action.key), fabric, action.key);
}

void Server::Impl::control(Fabric& fabric, Nanos now, Session& session, const Reject& action) {
  reject(fabric, now, instance_of(session), judged, action);
}

void Server::Impl::reject(Fabric& fabric, Nanos now, InstanceId instance, ConKey key, const Reject& answer) {
  report_refused(now, answer.reason, answer.peer_errno, [&](PathEvent& one) {
    one.peer = fabric.describe_request(answer.request);
    one.identity = fabric.identity_of_request(answer.request);
    one.refusal_words = fabric.refusal_of_request(answer.request);
  });
  std::array<std::byte, wire::kConnRspBytes> bytes;
  const auto message = encoded(wire::make_reject(answer.peer_errno), bytes);
  tap.cm(instance, now, key, trace::WireCmKind::rej, true, message);
  fabric.reject(answer.request, message);
  ++counted.rejected;
  ++counted.rejected_by[static_cast<std::size_t>(answer.reason)];
}

void Server::Impl::control(Fabric& fabric, Nanos now, Session& session, const Disconnect& action) {
  // Earlier posts must be sent first.
  posts.flush(fabric);
  tap.cm(instance_of(session), now, action.key, trace::WireCmKind::dreq, true);
  fabric.disconnect(action.key);
}

bool Server::Impl::provide_chunks(Fabric& fabric, Session& session) {
  if (session.chunks.id != kNoRegion) return true;
  const auto chunks = fabric.allocate(std::size_t{config.queue_depth} * config.chunk_size);
  if (!chunks) return false;
  session.chunks = *chunks;
  session.requests = RequestStore(config.queue_depth, config.max_hdr_size);
  return true;
}

// Makes the session's chunks writable for one path.
bool Server::Impl::make_chunk_keys(Fabric& fabric, Session& session, ConKey key) {
  if (!provide_chunks(fabric, session)) return false;
  const std::size_t parts = session.always_invalidate ? config.queue_depth : 1U;
  const std::size_t length = session.chunks.bytes.size() / parts;
  std::vector<RemoteKey>& chunk_keys = session.path_of(key).chunk_keys;
  runs.clear();
  chunk_keys.reserve(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    const auto remote_key = session.always_invalidate
                                ? fabric.make_revocable_key(key, session.chunks.id, i * length, length)
                                : fabric.make_key(session.chunks.id, i * length, length);
    if (!remote_key) return false;
    chunk_keys.push_back(*remote_key);
    runs.push_back(wire::Descriptor{remote_key->remote_addr, fabric.rkey_of(key, *remote_key),
                                    static_cast<std::uint32_t>(length)});
  }
  return true;
}

void Server::Impl::control(Fabric& fabric, Nanos now, Session& session, const SendInfoRsp& action) {
  bool made = false;
  try {
    made = make_chunk_keys(fabric, session, action.key);
    session.path_of(action.key).times = std::make_unique<ServiceTimes>();
    scratch.resize(wire::info_rsp_bytes(runs.size()));
  } catch (const std::bad_alloc&) {
    made = false;
  }
  if (!made) {
    session.failed = action.key;
    return;
  }
  const std::size_t length = wire::encode_info_rsp(runs, scratch);
  RTRS_ASSERT(length != 0);
  WorkRequest work;
  work.key = action.key;
  work.op = WorkRequest::Op::send;
  work.cookie = action.cookie;
  work.signalled = action.cookie != 0;
  work.inline_bytes = std::span(scratch).first(length);
  push(fabric, now, session, work);
}

void Server::Impl::control(Fabric& fabric, Nanos now, Session& session, const SendFenceRsp& action) {
  std::array<std::byte, wire::kFenceBytes> message;
  WorkRequest work;
  work.key = action.key;
  work.op = WorkRequest::Op::send;
  work.cookie = action.cookie;
  work.signalled = action.cookie != 0;
  work.inline_bytes = encoded(wire::FenceRsp{action.peer_errno, action.serial, action.sess_uuid}, message);
  push(fabric, now, session, work);
  ++counted.fences;
}

// Names the session that owns `name` and the address of its client, for operators. Empty: no session owns
// `name`.
std::string Server::Impl::holder_of(const std::string& name) const {
  for (const auto& other : sessions) {
    if (other == nullptr || name.empty() || other->name != name) continue;
    std::string words = "session " + std::to_string(other->machine.index()) + " owns this name";
    for (const Path& path : other->paths)
      if (path.up && !path.peer.empty())
        return words + ", client " + path.peer.substr(0, path.peer.find(' '));
    return words + ", without a connected path";
  }
  return {};
}

void Server::Impl::control(Fabric&, Nanos now, Session& session, const PathChanged& action) {
  Path& path = session.paths[action.path];
  if (action.state == PathState::connected) ++counted.paths_connected;
  if (action.state == PathState::closing && path.up) {
    ++counted.paths_lost;
    ++counted.lost_by[static_cast<std::size_t>(action.reason)];
  }
  path.up = action.state == PathState::connected;
  path.since = now;
  tell(PathEvent::Kind::path, now, [&](PathEvent& one) {
    one.session = session.machine.index();
    one.session_name = session.name;
    one.path = action;
    one.peer = path.peer;
    one.identity = session.identity;
    if (action.reason == Reason::not_allowed || action.reason == Reason::name_refused)
      one.refused_name = session.refused_name;
    if (action.reason == Reason::name_refused) one.refusal_words = holder_of(session.refused_name);
  });
}

void Server::Impl::control(Fabric&, Nanos now, Session& session, const LinkChanged& action) {
  tell(action.up ? PathEvent::Kind::link_up : PathEvent::Kind::link_down, now, [&](PathEvent& one) {
    one.session = session.machine.index();
    one.session_name = session.name;
  });
  if (!action.up || session.opened) return;
  session.opened = true;
  ++counted.sessions_opened;
  announce(ServerEvent::Kind::session_opened, session);
}

void Server::Impl::control(Fabric& fabric, Nanos, Session& session, const ReleasePath& action) {
  Path& path = session.paths[action.path];
  for (const RemoteKey& remote_key : path.chunk_keys) fabric.release_key(remote_key.id);
  path.chunk_keys.clear();
  path.traffic = Traffic{};
  path.times.reset();
}

void Server::Impl::control(Fabric&, Nanos now, Session& session, const EndSession& action) {
  tell(PathEvent::Kind::session_ended, now, [&](PathEvent& one) {
    one.session = session.machine.index();
    one.session_name = session.name;
    one.reason = action.reason;
  });
  if (session.opened) announce(ServerEvent::Kind::session_closed, session);
}

}  // namespace rtrs
