// Handles the events that the fabric reports to a server. Bytes from the peer are parsed here; bytes that do
// not parse close the path.
#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "core/base/fingerprint.hpp"
#include "core/base/overloaded.hpp"
#include "core/driver/server_impl.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

void Server::Impl::handle(Fabric& fabric, Nanos now, const FabricEvent& event) {
  std::visit(Overloaded{
                 [&](const event::ConnectRequested& one) {
                   if (!delay_set_up(one, one.private_data, kConnectCost)) handle_connect(fabric, now, one);
                 },
                 [&, this](const auto& one) {
                   Session* session = find(one.key.session);
                   if (session == nullptr) {
                     ++counted.stale_events;
                     return;
                   }
                   if (tap.on()) [[unlikely]]
                     this->note(now, *session, one);
                   this->on(fabric, now, *session, one);
                 },
             },
             event);
}

void Server::Impl::on(Fabric& fabric, Nanos now, Session& session, const event::ImmReceived& event) {
  if (wire::imm_type(event.imm) == wire::ImmType::io_req) return handle_request(fabric, now, session, event);
  feed(fabric, session, ImmReceived{now, event.key, event.imm});
}

void Server::Impl::on(Fabric& fabric, Nanos now, Session& session, const event::SendDone& event) {
  feed(fabric, session, SendDone{now, event.key, event.cookie});
}

void Server::Impl::on(Fabric& fabric, Nanos now, Session& session, const event::ConnectionLost& event) {
  // no_resources while connecting: the fabric could not allocate the accepted connection and sent the reject
  // in ConnectionParams::refusal.
  const unsigned path = event.key.path;
  if (event.reason == Reason::no_resources && session.machine.knows(event.key) &&
      session.machine.path_state(path) == PathState::connecting)
    report_refused(now, event.reason, wire::linux_errno::kEnomem, [&](PathEvent& one) {
      one.peer = fabric.describe(event.key);
      one.identity = session.identity;
    });
  feed(fabric, session, ConnectionLost{now, event.key, event.reason});
}

void Server::Impl::on(Fabric& fabric, Nanos now, Session& session, const event::ConnectionClosed& event) {
  // Delayed messages of the connection are dropped, because the session knows the connection no longer.
  counted.stale_events += std::erase_if(set_ups, [&event](const SetUp& one) {
    const auto* message = std::get_if<event::MessageReceived>(&one.event);
    return message != nullptr && message->key == event.key;
  });
  feed(fabric, session, ConnectionClosed{now, event.key});
}

void Server::Impl::on(Fabric& fabric, Nanos now, Session& session, const event::KeyInvalidated& event) {
  refuse(fabric, now, session, event.key, wire::Refusal::bad_type);
}

void Server::Impl::on(Fabric& fabric, Nanos now, Session& session, const event::ChunkInvalidated& event) {
  if (event.cookie >= config.queue_depth) return;
  feed(fabric, session, ChunkInvalidated{now, event.key, static_cast<std::uint16_t>(event.cookie), event.ok});
}

void Server::Impl::note(Nanos now, Session& session, const event::MessageReceived& event) {
  tap.received(instance_of(session), now, event);
}

void Server::Impl::note(Nanos now, Session& session, const event::KeyInvalidated& event) {
  tap.received(instance_of(session), now, event);
}

void Server::Impl::note(Nanos now, Session& session, const event::ConnectionLost& event) {
  if (event.reason != Reason::peer_closed) return;
  tap.cm(instance_of(session), now, event.key, trace::WireCmKind::dreq, false);
}

void Server::Impl::note(Nanos now, Session& session, const event::ConnectionClosed& event) {
  tap.cm(instance_of(session), now, event.key, trace::WireCmKind::closed, false);
}

void Server::Impl::note(Nanos now, Session& session, const event::ImmReceived& event) {
  const InstanceId instance = instance_of(session);
  const bool request = wire::imm_type(event.imm) == wire::ImmType::io_req;
  const auto place = request ? wire::check_io_req(config.queue_depth, config.chunk_size, event.imm)
                             : wire::refuse<wire::IoReqImm>(wire::Refusal::bad_immediate);
  // In these cases the driver does not read the chunk, so its content is not recorded.
  if (!place || session.machine.path_state(event.key.path) != PathState::connected ||
      !session.machine.knows(event.key)) {
    return tap.received(instance, now, event);
  }
  const wire::Bytes chunk =
      session.chunks.bytes.subspan(std::size_t{place.value.buf_id} * config.chunk_size, config.chunk_size);
  const bool generations = has(session.machine.granted(event.key), wire::Extensions::generation);
  const auto parsed = wire::parse_io_request(chunk, place.value.buf_id, place.value.off, generations);
  const wire::Bytes rest = chunk.subspan(place.value.off);
  if (!parsed) {
    return tap.received(instance, now, event, {}, rest.first(std::min(rest.size(), wire::kMaxIoHeaderBytes)));
  }
  const wire::IoRequest& io = parsed.value;
  const bool read = io.direction == Direction::read;
  const std::size_t header = !read               ? wire::kWriteHeaderBytes
                             : io.has_descriptor ? wire::kMaxIoHeaderBytes
                                                 : wire::kReadHeaderBytes;
  // The client of a read writes only headers, after the area for the data.
  tap.received(instance, now, event, read ? wire::Bytes{} : chunk.first(io.data_len),
               chunk.subspan(io.data_len, io.usr_len + header));
}

void Server::Impl::refuse(Fabric& fabric, Nanos now, Session& session, ConKey key, wire::Refusal why) {
  ++counted.refused_messages;
  feed(fabric, session, PeerBroke{now, key, why});
}

bool Server::Impl::delay_set_up(const SetUpEvent& event, wire::Bytes bytes, unsigned cost) noexcept {
  if (setup_cost < kSetUpShare && set_ups.empty()) {
    setup_cost += cost;
    return false;
  }
  if (set_ups.size() >= kMaxSetups) return false;
  try {
    set_ups.push_back(SetUp{event, {bytes.begin(), bytes.end()}});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Server::Impl::continue_setups(Fabric& fabric, Nanos now) {
  while (!set_ups.empty() && setup_cost < kSetUpShare) {
    SetUp next = std::move(set_ups.front());
    set_ups.pop_front();
    if (auto* request = std::get_if<event::ConnectRequested>(&next.event)) {
      setup_cost += kConnectCost;
      request->private_data = next.bytes;
      handle_connect(fabric, now, *request);
      continue;
    }
    auto& message = std::get<event::MessageReceived>(next.event);
    setup_cost += kInfoCost;
    message.payload = next.bytes;
    if (Session* session = find(message.key.session))
      handle_info(fabric, now, *session, message);
    else
      ++counted.stale_events;
  }
}

void Server::Impl::handle_connect(Fabric& fabric, Nanos now, const event::ConnectRequested& event) {
  const auto request = wire::parse_conn_req(event.private_data);
  if (!request) ++counted.refused_messages;
  const ConKey asked{0, request ? request.value.cid : std::uint16_t{0}, 0};
  const auto refused = [&, this](Reason reason, int peer_errno) {
    tap.cm(kRegistry, now, asked, trace::WireCmKind::req, false, event.private_data);
    reject(fabric, now, kRegistry, asked, {event.request, reason, static_cast<std::uint16_t>(peer_errno)});
  };
  if (!request) return refused(Reason::protocol_violation, wire::linux_errno::kEconnreset);
  if (event.refusal != Reason::none) return refused(event.refusal, wire::linux_errno::kEacces);
  if (closing) return refused(Reason::session_closed, wire::linux_errno::kEconnreset);
  if (access.any() && !allows_client(access, fabric.describe_request(event.request),
                                     fabric.identity_of_request(event.request)))
    return refused(Reason::not_allowed, wire::linux_errno::kEacces);
  RegistryActions answer;
  ask_registry(SessionSought{now, event.request, request.value.paths_uuid, request.value.first_conn,
                             event.host, event.identity},
               answer);
  RTRS_ASSERT(!answer.empty());
  for (const RegistryAction& one : answer) {
    const auto* crowded = std::get_if<CrowdOut>(&one);
    if (crowded == nullptr) continue;
    ++counted.crowded_out;
    feed(fabric, *sessions[crowded->session], CloseRequested{now});
  }
  const RegistryAction& action = *(answer.end() - 1);
  if (const auto* answered = std::get_if<Reject>(&action))
    return refused(answered->reason, answered->peer_errno);
  admit(fabric, now, event, request.value, std::get<AdmitSession>(action));
}

bool Server::Impl::provide_path(Session& session, unsigned path) noexcept {
  try {
    if (session.paths.size() <= path) session.paths.resize(path + 1U);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Server::Impl::note_peer(Path& path, const Fabric& fabric, std::uint32_t request) noexcept {
  try {
    path.peer = fabric.describe_request(request);
  } catch (const std::bad_alloc&) {
    path.peer.clear();
  }
}

void Server::Impl::note_peer(Path& path, const Fabric& fabric, ConKey accepted) noexcept {
  try {
    path.peer = fabric.describe(accepted);
    path.device = fabric.device_of(accepted);
  } catch (const std::bad_alloc&) {
    path.peer.clear();
    path.device = {};
  }
}

void Server::Impl::admit(Fabric& fabric, Nanos now, const event::ConnectRequested& event,
                         const wire::ConnReq& request, const AdmitSession& admission) {
  Session* session =
      admission.create ? create(now, admission.session, fabric, event.request) : find(admission.session);
  // If the session could not be created, the request is rejected and the path index is not used.
  const auto path = static_cast<std::uint16_t>(
      session == nullptr ? 0U : session->machine.assign(request.sess_uuid) % kMaxPaths);
  if (session == nullptr || !provide_path(*session, path)) {
    if (admission.create) forget(now, admission.session);
    const ConKey asked{0, request.cid, 0};
    tap.cm(kRegistry, now, asked, trace::WireCmKind::req, false, event.private_data);
    return reject(fabric, now, kRegistry, asked,
                  {event.request, Reason::no_resources, wire::linux_errno::kEnomem});
  }
  ConnectRequested input{};
  input.now = now;
  input.key = ConKey{path, request.cid, ++epoch, admission.session};
  judged = input.key;
  if (request.cid == 0 && session->machine.path_state(path) == PathState::absent)
    note_peer(session->paths[path], fabric, event.request);
  tap.cm(instance_of(*session), now, input.key, trace::WireCmKind::req, false, event.private_data);
  input.request = event.request;
  input.address_pair = event.address_pair;
  input.sess_uuid = request.sess_uuid;
  input.cid_num = request.cid_num;
  input.recon_cnt = request.recon_cnt;
  input.extensions = request.extensions;
  input.first_conn = request.first_conn;
  feed(fabric, *session, input);
}

void Server::Impl::on(Fabric& fabric, Nanos now, Session& session, const event::MessageReceived& event) {
  const auto type = wire::send_type(event.payload);
  if (!type) return refuse(fabric, now, session, event.key, type.why);
  const bool service = event.key.con == 0 && !event.imm;
  if (service && type.value == wire::MsgType::info_req) {
    if (!delay_set_up(event, event.payload, kInfoCost)) handle_info(fabric, now, session, event);
    return;
  }
  const bool fences = has(session.machine.granted(event.key), wire::Extensions::fence);
  if (service && type.value == wire::MsgType::fence_req && fences) {
    const auto fence = wire::parse_fence_req(event.payload);
    if (!fence) return refuse(fabric, now, session, event.key, fence.why);
    return feed(fabric, session,
                FenceRequested{now, event.key, fence.value.serial, fence.value.recon_cnt, fence.value.path});
  }
  refuse(fabric, now, session, event.key, wire::Refusal::bad_type);
}

void Server::Impl::handle_info(Fabric& fabric, Nanos now, Session& session,
                               const event::MessageReceived& event) {
  const auto info = wire::parse_info_req(event.payload);
  if (!info) return refuse(fabric, now, session, event.key, info.why);
  std::uint16_t refusal_errno = 0;
  if (session.machine.knows(event.key)) {
    const std::string_view name = info.value.name.view();
    Fingerprint low;
    low.add(name);
    Fingerprint high;
    high.add(low.value());
    high.add(name);
    if (!allows_session(access, name, session.identity)) {
      session.refused_name = name;
      return feed(fabric, session, InfoRequested{now, event.key, wire::linux_errno::kEacces});
    }
    RegistryActions answer;
    ask_registry(NameClaimed{now, session.machine.index(), low.value(), high.value()}, answer);
    RTRS_ASSERT(answer.size() == 1);
    refusal_errno = std::get<AnswerName>(answer[0]).refusal_errno;
    (refusal_errno == 0 ? session.name : session.refused_name) = name;
  }
  feed(fabric, session, InfoRequested{now, event.key, refusal_errno});
}

void Server::Impl::handle_request(Fabric& fabric, Nanos now, Session& session,
                                  const event::ImmReceived& event) {
  RequestArrived input{};
  input.now = now;
  input.key = event.key;
  const unsigned path = event.key.path;
  // The state machine ignores a request on a path that is not connected, and the driver must not read the
  // chunks for such a path.
  if (!session.machine.knows(event.key) || session.machine.path_state(path) != PathState::connected) {
    return feed(fabric, session, input);
  }
  const auto place = wire::check_io_req(config.queue_depth, config.chunk_size, event.imm);
  if (!place) return refuse(fabric, now, session, event.key, place.why);
  const wire::Bytes chunk =
      session.chunks.bytes.subspan(std::size_t{place.value.buf_id} * config.chunk_size, config.chunk_size);
  const bool generations = has(session.machine.granted(event.key), wire::Extensions::generation);
  const auto parsed = wire::parse_io_request(chunk, place.value.buf_id, place.value.off, generations);
  if (!parsed) return refuse(fabric, now, session, event.key, parsed.why);
  const wire::IoRequest& request = parsed.value;
  if (request.usr_len > session.requests.header_bytes()) {
    return refuse(fabric, now, session, event.key, wire::Refusal::bad_user_length);
  }
  input.data_len = request.data_len;
  input.usr_len = request.usr_len;
  input.chunk = static_cast<std::uint16_t>(request.buf_id);
  input.generation = request.generation;
  input.direction = request.direction;
  input.need_invalidate = request.need_inval;
  input.has_descriptor = request.has_descriptor;
  const wire::Bytes header = wire::user_header(chunk, request);
  if (session.machine.chunk_idle(input.chunk)) {
    session.requests.store_current(now, input.chunk, event.key, request, header);
  } else if (session.machine.will_wait_for_chunk(input)) {
    session.requests.store_waiting(now, input.chunk, event.key, request, header);
  }
  feed(fabric, session, input);
}

}  // namespace rtrs
