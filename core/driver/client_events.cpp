// What the fabric reports, turned into inputs of the session. Bytes of the server are parsed here and nowhere
// later.
#include <algorithm>
#include <cstring>

#include "core/driver/client_impl.hpp"

namespace rtrs {

namespace {

template <class Input, class... Rest>
Input at(Nanos now, const FabricEvent& event, Rest... rest) {
  return Input{now, event.key, rest...};
}

}  // namespace

// The peer's half of the conversation; our own half is noted where it is posted.
void Client::Impl::note(Nanos now, const FabricEvent& event) {
  using Cm = trace::WireCmKind;
  switch (event.kind) {
    case FabricEvent::Kind::imm_received:
    case FabricEvent::Kind::message_received:
    case FabricEvent::Kind::key_invalidated:
      return tap.received(kInstance, now, event);
    case FabricEvent::Kind::connected:
      return tap.cm(kInstance, now, event.key, Cm::rep, false, event.bytes);
    case FabricEvent::Kind::connect_failed:
      if (event.reason == Reason::rejected) tap.cm(kInstance, now, event.key, Cm::rej, false, event.bytes);
      return;
    case FabricEvent::Kind::connection_lost:
      if (event.reason == Reason::peer_closed) tap.cm(kInstance, now, event.key, Cm::dreq, false);
      return;
    case FabricEvent::Kind::connection_closed:
      return tap.cm(kInstance, now, event.key, Cm::closed, false);
    case FabricEvent::Kind::connect_requested:
    case FabricEvent::Kind::send_done:
    case FabricEvent::Kind::chunk_invalidated:
      return;
  }
}

void Client::Impl::handle(Fabric& fabric, Nanos now, const FabricEvent& event) {
  if (tap.on()) [[unlikely]]
    note(now, event);
  switch (event.kind) {
    case FabricEvent::Kind::imm_received:
      return feed(fabric, at<ImmReceived>(now, event, event.imm));
    case FabricEvent::Kind::message_received:
      return handle_message(fabric, now, event);
    case FabricEvent::Kind::send_done:
      return feed(fabric, at<SendDone>(now, event, event.cookie));
    case FabricEvent::Kind::connected:
      return handle_connected(fabric, now, event);
    case FabricEvent::Kind::connect_failed: {
      const bool rejected = event.reason == Reason::rejected;
      const auto peer_errno = static_cast<std::uint16_t>(rejected ? wire::reject_errno(event.bytes) : 0);
      return feed(fabric, at<ConnectFailed>(now, event, event.reason, peer_errno));
    }
    case FabricEvent::Kind::connection_lost:
      return feed(fabric, at<ConnectionLost>(now, event, event.reason));
    case FabricEvent::Kind::connection_closed:
      return feed(fabric, at<ConnectionClosed>(now, event));
    case FabricEvent::Kind::key_invalidated:
      return feed(fabric, at<KeyInvalidated>(now, event, permit_of(event.rkey)));
    case FabricEvent::Kind::connect_requested:
      fabric.reject(event.request, {});  // a client does not listen
      return;
    case FabricEvent::Kind::chunk_invalidated:
      return;  // a client invalidates nothing
  }
}

void Client::Impl::refuse(Fabric& fabric, Nanos now, ConKey key, wire::Refusal why) {
  ++stats.refused_messages;
  feed(fabric, PeerBroke{now, key, why});
}

void Client::Impl::handle_connected(Fabric& fabric, Nanos now, const FabricEvent& event) {
  const auto rsp = wire::parse_conn_rsp(event.bytes, event.key.con);
  if (!rsp || rsp.value.error != 0) {
    ++stats.refused_messages;
    return feed(fabric, ConnectFailed{now, event.key, Reason::bad_conn_rsp, 0});
  }
  feed(fabric, Connected{now, event.key, rsp.value.max_io_size, rsp.value.max_hdr_size, rsp.value.flags,
                         rsp.value.queue_depth});
}

void Client::Impl::handle_message(Fabric& fabric, Nanos now, const FabricEvent& event) {
  if (event.has_imm) {
    const auto rsp = wire::parse_rkey_rsp(event.bytes, session.queue_depth());
    if (!rsp) return refuse(fabric, now, event.key, rsp.why);
    return feed(fabric, KeyedResponseReceived{now, event.key, event.imm, rsp.value.rkey, rsp.value.buf_id});
  }
  const auto type = wire::send_type(event.bytes);
  if (!type) return refuse(fabric, now, event.key, type.why);
  if (event.key.con == 0 && type.value == wire::MsgType::info_rsp) return handle_info(fabric, now, event);
  if (event.key.con != 0 || type.value != wire::MsgType::fence_rsp)
    return refuse(fabric, now, event.key, wire::Refusal::bad_type);
  const auto rsp = wire::parse_fence_rsp(event.bytes);
  if (!rsp) return refuse(fabric, now, event.key, rsp.why);
  feed(fabric, FenceAnswered{now, event.key, rsp.value.serial, rsp.value.error});
}

void Client::Impl::handle_info(Fabric& fabric, Nanos now, const FabricEvent& event) {
  // A late INFO_RSP must not touch the table of a newer incarnation.
  if (event.key.path >= kMaxPaths) return;
  const ClientPath& path = session.path(event.key.path);
  const bool ending = path.state() == PathState::draining || path.state() == PathState::closing;
  if (!path.owns(event.key) || ending) return feed(fabric, InfoAccepted{now, event.key});
  if (!path.expects_info(options.protocol)) return refuse(fabric, now, event.key, wire::Refusal::bad_type);
  const std::uint32_t chunk_size = session.max_io_size() + session.max_hdr_size();
  const auto rsp = wire::parse_info_rsp(event.bytes, session.queue_depth(), chunk_size);
  if (!rsp) return refuse(fabric, now, event.key, rsp.why);
  auto& chunks = path_data[event.key.path].chunks;
  chunks.resize(std::min<std::size_t>(session.queue_depth(), options.protocol.max_depth));
  wire::ChunkWalk walk(event.bytes, chunk_size);
  for (wire::ChunkRef& chunk : chunks) chunk = walk.next().value;
  if (!prepare_memory(fabric)) return feed(fabric, ConnectionLost{now, event.key, Reason::no_resources});
  feed(fabric, InfoAccepted{now, event.key});
}

// Once, when the session's depth is known for good: the first path that comes up decides it.
bool Client::Impl::prepare_memory(Fabric& fabric) {
  if (session.opened()) return true;
  const std::size_t depth = std::min<std::size_t>(session.queue_depth(), options.protocol.max_depth);
  if (buffers.id != kNoRegion) {
    fabric.release_key(buffers_key.id);
    fabric.release(buffers.id);
    fabric.release(headers.id);
  }
  const auto header_memory = fabric.allocate(depth * kHeaderBytes);
  if (!header_memory) return false;
  const auto buffer_memory = fabric.allocate(depth * session.max_io_size());
  if (!buffer_memory) {
    fabric.release(header_memory->id);
    return false;
  }
  const auto remote_key = fabric.make_key(buffer_memory->id, 0, buffer_memory->bytes.size());
  if (!remote_key) {
    fabric.release(header_memory->id);
    fabric.release(buffer_memory->id);
    return false;
  }
  headers = *header_memory;
  buffers = *buffer_memory;
  buffers_key = *remote_key;
  slots.resize(depth);
  return true;
}

std::uint16_t Client::Impl::permit_of(std::uint32_t rkey) const noexcept {
  for (std::size_t permit = 0; permit < slots.size(); ++permit)
    if (slots[permit].remote_key.id != kNoRemoteKey && slots[permit].remote_key.rkey == rkey)
      return static_cast<std::uint16_t>(permit);
  return kNoPermit;
}

}  // namespace rtrs
