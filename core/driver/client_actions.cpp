// Performs the session's actions.
#include <algorithm>
#include <cstring>

#include "core/driver/client_impl.hpp"
#include "core/driver/probes.hpp"
#include "core/proto/reasons.hpp"

namespace rtrs {

// Returns the address and key to which the server writes the data of a READ.
RemoteKey Client::Impl::destination(Fabric& fabric, std::uint16_t permit) {
  Slot& slot = slots[permit];
  if (!slot.copied) {
    if (remote_keys.size() <= slot.region) remote_keys.resize(slot.region + 1U);
    RemoteKey& whole = remote_keys[slot.region];
    if (whole.id == kNoRemoteKey)
      whole = fabric.make_key(slot.region, 0, fabric.bytes(slot.region).size()).value_or(RemoteKey{});
    if (whole.id == kNoRemoteKey) {
      // The fabric gave no key, so the data is copied, as for memory that the application did not register.
      ++stats.copied_reads;
      slot.copied = true;
      slot.region = buffers.id;
      slot.region_offset = permit * session.max_io_size();
    }
  }
  RemoteKey part = slot.copied ? buffers_key : remote_keys[slot.region];
  part.remote_addr += slot.region_offset;
  return part;
}

// Appends the RTRS header to the user header; returns its size.
std::size_t Client::Impl::append_header(std::uint16_t permit, const PostRequest& action,
                                        const RemoteKey& target) noexcept {
  const Slot& slot = slots[permit];
  const auto memory = headers.bytes.subspan(permit * kHeaderBytes + slot.usr_len);
  wire::IoRequest request;
  request.direction = slot.direction;
  request.usr_len = static_cast<std::uint16_t>(slot.usr_len);
  request.generation = action.generation;
  request.has_descriptor = slot.direction == Direction::read && !slot.data.empty();
  request.need_inval = slot.remote_key.id != kNoRemoteKey;  // never for a key that other requests use
  if (request.has_descriptor)
    request.desc =
        wire::Descriptor{target.remote_addr, target.rkey, static_cast<std::uint32_t>(slot.data.size())};
  return wire::encode(request, memory);
}

void Client::Impl::perform(Fabric& fabric, Nanos now, const PostRequest& action) {
  Slot& slot = slots[action.permit];
  const bool reads = slot.direction == Direction::read && !slot.data.empty();
  if (slot.remote_key.id != kNoRemoteKey) {  // left over from a previous attempt whose path was lost
    fabric.release_key(slot.remote_key.id);
    slot.remote_key = RemoteKey{};
  }
  if (reads && action.offer_invalidation) {
    const auto own = fabric.make_request_key(action.key, slot.region, slot.region_offset, slot.data.size());
    if (own) slot.remote_key = *own;
    slot.key_on = action.key;
  }
  RemoteKey target = slot.remote_key;
  if (reads && target.id == kNoRemoteKey) {
    target = destination(fabric, action.permit);
    target.rkey = fabric.rkey_of(action.key, target);
  }
  const std::size_t header = append_header(action.permit, action, target);
  const wire::Descriptor& chunk = path_data[action.key.path].chunks[action.permit];
  WorkRequest work;
  work.key = action.key;
  work.op = WorkRequest::Op::write_imm;
  work.imm = action.imm;
  work.rkey = chunk.key;
  work.remote_addr = chunk.addr + (slot.direction == Direction::read ? slot.data.size() : 0);
  work.signalled = action.cookie != 0;
  work.cookie = action.cookie;
  if (slot.direction == Direction::write && !slot.data.empty())
    work.parts[work.part_count++] =
        LocalPart{slot.region, slot.region_offset, static_cast<std::uint32_t>(slot.data.size())};
  work.parts[work.part_count++] =
      LocalPart{headers.id, static_cast<std::uint32_t>(action.permit * kHeaderBytes),
                static_cast<std::uint32_t>(slot.usr_len + header)};
  slot.posted = now;
  status[action.key.path].traffic.add(slot.direction, slot.data.size() + slot.usr_len);
  push(fabric, now, work);
}

void Client::Impl::perform(Fabric& fabric, Nanos now, const PostImm& action) {
  WorkRequest work;
  work.key = action.key;
  work.op = WorkRequest::Op::write_imm;
  work.imm = action.imm;
  work.signalled = action.cookie != 0;
  work.cookie = action.cookie;
  push(fabric, now, work);
}

void Client::Impl::control(Fabric& fabric, Nanos now, const ProbeDelivery& action) {
  WorkRequest work;
  work.key = action.key;
  work.op = WorkRequest::Op::write;
  work.signalled = true;
  work.cookie = action.cookie;
  push(fabric, now, work);
}

void Client::Impl::perform(Fabric& fabric, Nanos, const PostReceive& action) {
  const std::size_t bytes = action.kind == ReceiveKind::info ? wire::info_rsp_bytes(session.queue_depth())
                            : action.kind == ReceiveKind::message ? wire::kFenceBytes
                                                                  : 0;
  fabric.post_receive(action.key, action.count, static_cast<std::uint32_t>(bytes));
}

void Client::Impl::perform(Fabric& fabric, Nanos now, const Complete& action) {
  Slot& slot = slots[action.permit];
  const bool ok = action.result == Errc::ok;
  if (ok) {
    // The time is recorded before any function call, so that no value must be saved across a call.
    PathData& path = path_data[session.permit(action.permit).path];
    path.times[static_cast<std::size_t>(slot.direction)].record(now - slot.posted);
  }
  if (slot.remote_key.id != kNoRemoteKey) {
    fabric.release_key(slot.remote_key.id);
    slot.remote_key = RemoteKey{};
  }
  if (ok) {
    const bool read = slot.direction == Direction::read;
    if (read && slot.copied && !slot.data.empty())
      std::memcpy(slot.data.data(), buffers.bytes.data() + slot.region_offset, slot.data.size());
    if (read && !slot.data.empty()) tap.read(kInstance, now, slot.data);
    ++(read ? stats.reads : stats.writes);
    (read ? stats.read_bytes : stats.write_bytes) += slot.data.size();
  }
  finish(slot.user_data, action.result, action.peer_errno);
}

void Client::Impl::perform(Fabric&, Nanos, const StoreKey& action) {
  auto& chunks = path_data[action.path].chunks;
  if (action.buf_id < chunks.size()) chunks[action.buf_id].key = action.rkey;
}

void Client::Impl::perform(Fabric& fabric, Nanos at, const ClientControlAction& action) {
  std::visit([&](const auto& one) { this->control(fabric, at, one); }, action);
}

void Client::Impl::control(Fabric& fabric, Nanos now, const Connect& action) {
  wire::ConnReq request;
  request.cid = action.key.con;
  request.cid_num = action.cid_num;
  request.recon_cnt = action.recon_cnt;
  request.sess_uuid = path_data[action.key.path].uuid;
  request.paths_uuid = options.session_uuid;
  request.first_conn = action.first_conn;
  request.extensions = action.extensions;
  std::array<std::byte, wire::kConnReqBytes> bytes{};
  const std::size_t size = wire::encode(request, bytes);
  // A request needs a receive for its response and, if invalidation is offered, one before it. The other
  // receives are for messages.
  const unsigned per_request = options.protocol.offer_invalidation ? 2U : 1U;
  ConnectionParams params{options.protocol.send_depth, per_request * options.protocol.max_depth + 128U,
                          per_request > 1 ? options.protocol.max_depth : 0U};
  params.address = session.path(action.key.path).address();
  tap.cm(kInstance, now, action.key, trace::WireCmKind::req, true, std::span(bytes).first(size));
  fabric.connect(action.key, path_data[action.key.path].address, params, std::span(bytes).first(size));
}

void Client::Impl::control(Fabric& fabric, Nanos now, const Disconnect& action) {
  tap.cm(kInstance, now, action.key, trace::WireCmKind::dreq, true);
  fabric.disconnect(action.key);
}

namespace {
// Emits trace points under the names that Linux uses.
void trace_change(const char* session, const PathChanged& change, bool ever_connected) {
  if (change.state == PathState::connecting && (ever_connected || change.attempt != 0))
    RTRS_PROBE(rtrs_clt, rtrs_clt_reconnect_work, session, change.path, change.attempt);
  else if (change.state == PathState::draining && text_of(change.reason).kind != ReasonKind::wanted)
    RTRS_PROBE(rtrs_clt, rtrs_rdma_error_recovery, session, change.path, to_string(change.reason));
  else if (change.state == PathState::closing)
    RTRS_PROBE(rtrs_clt, rtrs_clt_close_conns, session, change.path, to_string(change.reason));
}

WorkRequest message(ConKey key, std::uint64_t cookie, std::span<const std::byte> bytes) {
  WorkRequest work;
  work.key = key;
  work.op = WorkRequest::Op::send;
  work.signalled = cookie != 0;
  work.cookie = cookie;
  work.inline_bytes = bytes;
  return work;
}
}  // namespace

void Client::Impl::control(Fabric& fabric, Nanos now, const SendInfoReq& action) {
  const auto name = wire::make_name(options.session_name);
  const std::size_t size = wire::encode(wire::InfoReq{name.value}, scratch);
  push(fabric, now, message(action.key, action.cookie, std::span(scratch).first(size)));
}

void Client::Impl::control(Fabric& fabric, Nanos now, const SendFenceReq& action) {
  wire::FenceReq request;
  request.recon_cnt = action.recon_cnt;
  request.serial = action.serial;
  request.path = path_data[action.path].uuid;
  const std::size_t size = wire::encode(request, scratch);
  push(fabric, now, message(action.key, action.cookie, std::span(scratch).first(size)));
}

void Client::Impl::control(Fabric&, Nanos at, const PathChanged& action) {
  PathStatus& path = status[action.path];
  trace_change(options.session_name.c_str(), action, path.ever_connected);
  if (action.state == PathState::connected && path.ever_connected) ++path.reconnects;
  if (action.state == PathState::connected) path.ever_connected = true;
  // A challenge is not a failure: the attempt continues with the next connect request.
  const bool failed = action.state == PathState::draining && path.state == PathState::connecting;
  if (failed && action.reason != Reason::challenged) ++path.failed_attempts;
  if (path.state == PathState::connected && action.state != PathState::connected) path.lost_at = at;
  path.state = action.state;
  // Keeps the reason of the last failure while a new attempt is in progress.
  if (action.reason != Reason::none || action.state == PathState::connected) {
    if (action.reason != Reason::attempts_exhausted)
      path.last_cause = Reason::none;
    else if (path.reason != Reason::attempts_exhausted)
      path.last_cause = path.reason;
    path.reason = action.reason;
    path.peer_errno = action.peer_errno;
  }
  path.attempt = action.attempt;
  path.since = at;
  queue_event(PathEvent::Kind::path, at);
  news.back().path = action;
}

void Client::Impl::control(Fabric&, Nanos at, const LinkChanged& action) {
  queue_event(action.up ? PathEvent::Kind::link_up : PathEvent::Kind::link_down, at);
}

void Client::Impl::control(Fabric&, Nanos, const FailedOver& action) {
  ++stats.failovers;
  if (!action.fenced) ++stats.unfenced_failovers;
  ++status[action.to].failovers;
}

void Client::Impl::control(Fabric&, Nanos, const ReleasePath& action) {
  path_data[action.path].chunks.clear();
}

void Client::Impl::control(Fabric& fabric, Nanos at, const EndSession& action) {
  ended = true;
  if (buffers.id != kNoRegion) {
    fabric.release_key(buffers_key.id);
    fabric.release(buffers.id);
    fabric.release(headers.id);
  }
  for (RemoteKey& remote_key : remote_keys) {
    if (remote_key.id != kNoRemoteKey) fabric.release_key(remote_key.id);
    remote_key = RemoteKey{};
  }
  if (recorder != nullptr) recorder->end(at, kInstance);
  queue_event(PathEvent::Kind::session_ended, at);
  news.back().reason = action.reason;
}

}  // namespace rtrs
