// Converts fabric events to session inputs. Bytes from the server are parsed only here.
#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/overloaded.hpp"
#include "core/driver/client_impl.hpp"

namespace rtrs {

// Records messages from the peer as wire notes. Messages of this side are recorded when they are posted.
void Client::Impl::note(Nanos now, const FabricEvent& event) {
  using Cm = trace::WireCmKind;
  const auto cm = [&, this](ConKey key, Cm kind, wire::Bytes private_data = {}) {
    tap.cm(kInstance, now, key, kind, false, private_data);
  };
  std::visit(Overloaded{
                 [&](const event::ImmReceived& one) { tap.received(kInstance, now, one); },
                 [&](const event::MessageReceived& one) { tap.received(kInstance, now, one); },
                 [&](const event::KeyInvalidated& one) { tap.received(kInstance, now, one); },
                 [&](const event::Connected& one) { cm(one.key, Cm::rep, one.private_data); },
                 [&](const event::ConnectFailed& one) {
                   if (one.reason == Reason::rejected || one.reason == Reason::challenged)
                     cm(one.key, Cm::rej, one.private_data);
                 },
                 [&](const event::ConnectionLost& one) {
                   if (one.reason == Reason::peer_closed) cm(one.key, Cm::dreq);
                 },
                 [&](const event::ConnectionClosed& one) { cm(one.key, Cm::closed); },
                 [](const event::ConnectRequested&) {},
                 [](const event::SendDone&) {},
                 [](const event::ChunkInvalidated&) {},
                 [](const event::AddressesFound&) {},
             },
             event);
}

namespace {

// Reason of a failed connection attempt. If the peer closes the connection before it answers the connect
// request, or sends an invalid answer, the reason differs from that of a later close, because such a peer
// does not know the session and often is not an RTRS server.
Reason failure_of(Reason told_by_fabric) noexcept {
  switch (told_by_fabric) {
    case Reason::peer_closed:
      return Reason::unanswered;
    case Reason::protocol_violation:
      return Reason::bad_conn_rsp;
    default:
      return told_by_fabric;
  }
}

// Every server, even the kernel's, refuses a session name by closing the connection instead of sending
// INFO_RSP (protocol section 2.3). While another path of the session is connected, the server has accepted
// the name, so the close has another reason.
Reason loss_of(const ClientSession& session, const ClientConfig& config, const event::ConnectionLost& lost) {
  if (lost.reason != Reason::peer_closed || lost.key.path >= kMaxPaths || session.connected_paths() != 0)
    return lost.reason;
  const ClientPath& path = session.path(lost.key.path);
  return path.owns(lost.key) && path.expects_info(config) ? Reason::name_refused : lost.reason;
}

}  // namespace

void Client::Impl::handle(Fabric& fabric, Nanos now, const FabricEvent& event) {
  if (tap.on()) [[unlikely]]
    note(now, event);
  std::visit(Overloaded{
                 [&](const event::ImmReceived& one) {
                   feed(fabric, ImmReceived{now, one.key, one.imm});
                 },
                 [&](const event::MessageReceived& one) { handle_message(fabric, now, one); },
                 [&](const event::SendDone& one) {
                   feed(fabric, SendDone{now, one.key, one.cookie});
                 },
                 [&](const event::AddressesFound& one) {
                   feed(fabric, AddressesFound{now, one.key, one.count});
                 },
                 [&](const event::Connected& one) { handle_connected(fabric, now, one); },
                 [&](const event::ConnectFailed& one) {
                   const bool rejected = one.reason == Reason::rejected || one.reason == Reason::challenged;
                   const int peer_errno = rejected ? wire::reject_errno(one.private_data) : 0;
                   feed(fabric, ConnectFailed{now, one.key, failure_of(one.reason),
                                              static_cast<std::uint16_t>(peer_errno)});
                 },
                 [&](const event::ConnectionLost& one) {
                   feed(fabric, ConnectionLost{now, one.key, loss_of(session, options.protocol, one)});
                 },
                 [&](const event::ConnectionClosed& one) {
                   feed(fabric, ConnectionClosed{now, one.key});
                 },
                 [&](const event::KeyInvalidated& one) {
                   feed(fabric, KeyInvalidated{now, one.key, permit_of(one.key, one.rkey)});
                 },
                 // A client does not listen for connections.
                 [&](const event::ConnectRequested& one) { fabric.reject(one.request, {}); },
                 // A client does not invalidate its own keys.
                 [](const event::ChunkInvalidated&) {},
             },
             event);
}

void Client::Impl::refuse(Fabric& fabric, Nanos now, ConKey key, wire::Refusal why) {
  ++stats.refused_messages;
  feed(fabric, PeerBroke{now, key, why});
}

void Client::Impl::handle_connected(Fabric& fabric, Nanos now, const event::Connected& event) {
  const auto rsp = wire::parse_conn_rsp(event.private_data, event.key.con);
  if (!rsp || rsp.value.error != 0) {
    ++stats.refused_messages;
    return feed(fabric, ConnectFailed{now, event.key, Reason::bad_conn_rsp, 0});
  }
  if (event.key.con == 0 && event.key.path < path_data.size()) {
    PathData& path = path_data[event.key.path];
    try {
      path.peer = fabric.describe(event.key);
      path.device = fabric.device_of(event.key);
    } catch (const std::bad_alloc&) {
      path.peer.clear();  // the path shows no address and no device
      path.device = {};
    }
  }
  feed(fabric, Connected{now, event.key, rsp.value.max_io_size, rsp.value.max_hdr_size, rsp.value.flags,
                         rsp.value.queue_depth});
}

void Client::Impl::handle_message(Fabric& fabric, Nanos now, const event::MessageReceived& event) {
  if (event.imm) {
    const auto rsp = wire::parse_rkey_rsp(event.payload, session.queue_depth());
    if (!rsp) return refuse(fabric, now, event.key, rsp.why);
    return feed(fabric, KeyedResponseReceived{now, event.key, *event.imm, rsp.value.rkey, rsp.value.buf_id});
  }
  const auto type = wire::send_type(event.payload);
  if (!type) return refuse(fabric, now, event.key, type.why);
  if (event.key.con == 0 && type.value == wire::MsgType::info_rsp) return handle_info(fabric, now, event);
  if (event.key.con != 0 || type.value != wire::MsgType::fence_rsp)
    return refuse(fabric, now, event.key, wire::Refusal::bad_type);
  const auto rsp = wire::parse_fence_rsp(event.payload);
  if (!rsp) return refuse(fabric, now, event.key, rsp.why);
  feed(fabric, FenceAnswered{now, event.key, rsp.value.serial, rsp.value.error});
}

void Client::Impl::handle_info(Fabric& fabric, Nanos now, const event::MessageReceived& event) {
  // A late INFO_RSP must not touch the table of a newer incarnation.
  if (event.key.path >= path_data.size()) return;
  const ClientPath& path = session.path(event.key.path);
  const bool ending = path.state() == PathState::draining || path.state() == PathState::closing;
  if (!path.owns(event.key) || ending) return feed(fabric, InfoAccepted{now, event.key});
  if (!path.expects_info(options.protocol)) return refuse(fabric, now, event.key, wire::Refusal::bad_type);
  const std::uint32_t chunk_size = session.max_io_size() + session.max_hdr_size();
  const auto rsp = wire::parse_info_rsp(event.payload, session.queue_depth(), chunk_size);
  if (!rsp) return refuse(fabric, now, event.key, rsp.why);
  auto& chunks = path_data[event.key.path].chunks;
  chunks.resize(std::min<std::size_t>(session.queue_depth(), options.protocol.max_depth));
  wire::ChunkWalk walk(event.payload, chunk_size);
  for (wire::Descriptor& chunk : chunks) chunk = walk.next().value;
  if (!prepare_memory(fabric)) return feed(fabric, ConnectionLost{now, event.key, Reason::no_resources});
  feed(fabric, InfoAccepted{now, event.key});
}

// Allocates the session's memory when the first path is about to connect, which fixes the queue depth.
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

std::uint16_t Client::Impl::permit_of(ConKey key, std::uint32_t rkey) const noexcept {
  for (std::size_t permit = 0; permit < slots.size(); ++permit)
    if (slots[permit].remote_key.id != kNoRemoteKey && slots[permit].remote_key.rkey == rkey &&
        slots[permit].key_on == key)
      return static_cast<std::uint16_t>(permit);
  return kNoPermit;
}

}  // namespace rtrs
