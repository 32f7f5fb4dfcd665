#include "core/driver/block_server.hpp"

#include <algorithm>
#include <new>

#include "core/base/assert.hpp"
#include "core/driver/block_server_impl.hpp"
#include "core/driver/probes.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs {

static_assert(rnbd::kMaxServerOperations >= kMaxPermits,
              "a session never has more requests than its devices can name");

namespace {

// Emits trace points for messages other than IO, under the names that Linux uses.
void trace_message(const ServerEvent& event) {
  const auto type = wire::rnbd::message_type(event.user_header);
  if (!type) return;
  if (type.value == wire::rnbd::MsgType::sess_info)
    RTRS_PROBE(rnbd_srv, process_msg_sess_info, event.session, event.id.chunk);
  else if (type.value == wire::rnbd::MsgType::open)
    RTRS_PROBE(rnbd_srv, process_msg_open, event.session, event.id.chunk);
  else if (type.value == wire::rnbd::MsgType::close)
    RTRS_PROBE(rnbd_srv, process_msg_close, event.session, event.id.chunk);
}

}  // namespace

// Reserves room for all actions that can be pending, because several results may arrive without a poll()
// between them: at most one action per request (a chunk's next request starts only after the operation of the
// previous one was handed out), one CloseExport per open export, and a few for one transport event.
void BlockServer::Impl::reserve_actions() {
  constexpr std::size_t kSpare = 64;
  const std::size_t needed = kSpare + std::size_t{live + 1U} * (depth + 2U) + exports.size() + 1;
  if (needed <= capacity) return;
  const std::size_t larger = std::max(needed, 2 * capacity);
  Ring<block::Action> grown;
  grown.open(larger);
  for (; !waiting.empty(); waiting.pop()) grown.push() = waiting.front();
  waiting = std::move(grown);
  capacity = larger;
}

BlockServer::Impl::~Impl() {
  if (recorder == nullptr) return;
  for (const std::unique_ptr<Session>& session : sessions)
    if (session != nullptr) recorder->forget(instance_of(*session), &session->devices);
}

void BlockServer::Impl::hand_out_waiting() noexcept {
  for (; !waiting.empty() && handed < out.size(); waiting.pop()) {
    out[handed++] = waiting.front();
    // unreported_damage has the order in which the reports are handed out.
    if (std::holds_alternative<block::CacheDamaged>(waiting.front()))
      unreported_damage.erase(unreported_damage.begin());
  }
}

std::size_t BlockServer::Impl::poll(Fabric& fabric, Nanos now, std::span<block::Action> into) {
  out = into;
  handed = 0;
  if (!waiting.empty()) [[unlikely]]
    hand_out_waiting();
  if (next == count && handed < out.size()) {
    next = 0;
    count = server.poll(fabric, now, events);
  }
  if (next < count && handed < out.size()) {
    const Server::ResponseBatch answers(server, fabric);
    while (next < count && handed < out.size() && waiting.empty()) handle(fabric, now, events[next++]);
  }
  out = {};
  return handed;
}

void BlockServer::Impl::handle(Fabric& fabric, Nanos now, const ServerEvent& event) {
  switch (event.kind) {
    case ServerEvent::Kind::request:
      return handle_request(fabric, now, event);
    case ServerEvent::Kind::session_opened:
      return open_session(fabric, now, event);
    case ServerEvent::Kind::session_closed:
      return close_session(fabric, now, event.session);
  }
}

void BlockServer::Impl::open_session(Fabric& fabric, Nanos now, const ServerEvent& event) {
  ++live;
  try {
    if (sessions.size() <= event.session) sessions.resize(event.session + 1U);
    reserve_actions();
    sessions[event.session] = std::make_unique<Session>(event.session, last_session + 1, generation, depth);
    if (recorder != nullptr) begin_record(now, *sessions[event.session]);
  } catch (const std::bad_alloc&) {
    --live;
    const Session* const made = find(event.session);
    if (made != nullptr && recorder != nullptr) recorder->end(now, instance_of(*made));
    if (made != nullptr) sessions[event.session].reset();
    auto& refused = emit<block::SessionRefused>();
    refused.session = event.session;
    refused.name = event.name;
    return server.close_session(fabric, now, event.session);
  }
  RTRS_PROBE(rnbd_srv, create_sess, event.session, event.name.data());
  generation = (generation + 1) % rnbd::kMaxGenerations;
  auto& opened = emit<block::SessionOpened>();
  opened.session = event.session;
  opened.serial = ++last_session;
  opened.name = event.name;
}

void BlockServer::Impl::begin_record(Nanos now, const Session& session) {
  const InstanceId instance = instance_of(session);
  const rnbd::ServerOptions options{generation, rnbd::kMaxGenerations};
  recorder->begin(instance, trace::BeginServerDevices{now, session.index, options});
  recorder->watch(instance, MachineKind::server_devices, session.devices);
}

// The transport ends a session after its last request was answered, so the caller has no pending operation of
// the session.
void BlockServer::Impl::close_session(Fabric& fabric, Nanos now, std::uint16_t index) {
  Session* session = find(index);
  if (session == nullptr) return;  // the session was refused
  RTRS_PROBE(rnbd_srv, destroy_sess, index);
  feed(fabric, now, *session, rnbd::SessionClosed{});
  RTRS_ASSERT(session->drained);
  auto& closed = emit<block::SessionClosed>();
  closed.session = index;
  closed.serial = session->serial;
  closed.unknown_flags = session->devices.unknown_flags();
  if (recorder != nullptr) recorder->end(now, instance_of(*session));
  sessions[index].reset();
  --live;
}

void BlockServer::Impl::handle_request(Fabric& fabric, Nanos now, const ServerEvent& event) {
  Session* session = find(event.session);
  if (session == nullptr) return server.respond(fabric, now, event.id, wire::linux_errno::kEnomem);
  session->data[event.id.chunk] = event.data;
  RTRS_PROBE(rnbd_srv, process_rdma, event.session, event.id.chunk, event.direction, event.data.size());
  if (event.user_header.size() != wire::rnbd::kIoBytes) [[unlikely]]
    trace_message(event);
  feed(fabric, now, *session,
       rnbd::DeviceRequest{event.id.number(), static_cast<std::uint32_t>(event.data.size()), event.direction,
                           event.user_header});
}

BlockServer::BlockServer(const ServerConfig& config, std::uint32_t first_generation, Recorder* recorder)
    : impl_(std::make_unique<Impl>(config, first_generation, recorder)) {}
BlockServer::~BlockServer() = default;
BlockServer::BlockServer(BlockServer&&) noexcept = default;
BlockServer& BlockServer::operator=(BlockServer&&) noexcept = default;

Errc BlockServer::listen(Fabric& fabric, Nanos now, const PathAddress& local) {
  return impl_->server.listen(fabric, now, local);
}

std::size_t BlockServer::poll(Fabric& fabric, Nanos now, std::span<block::Action> out) {
  return impl_->poll(fabric, now, out);
}

Nanos BlockServer::next_deadline() const noexcept {
  const bool more = !impl_->waiting.empty() || impl_->next < impl_->count;
  return more ? 0 : impl_->server.next_deadline();
}

Server::ResponseBatch BlockServer::gather(Fabric& fabric) noexcept {
  return Server::ResponseBatch(impl_->server, fabric);
}

Errc BlockServer::disconnect_path(Fabric& fabric, Nanos now, std::uint16_t session, unsigned path) {
  return impl_->server.disconnect_path(fabric, now, session, path);
}

Errc BlockServer::reset_statistics(std::uint16_t session, unsigned path) noexcept {
  return impl_->server.reset_statistics(session, path);
}

void BlockServer::close_session(Fabric& fabric, Nanos now, std::uint16_t session) {
  impl_->server.close_session(fabric, now, session);
}

void BlockServer::close(Fabric& fabric, Nanos now) {
  impl_->server.close(fabric, now);
}

bool BlockServer::closed() const noexcept {
  return impl_->server.closed() && impl_->live == 0 && impl_->waiting.empty();
}

void BlockServer::set_access(AccessRules rules) {
  impl_->server.set_access(std::move(rules));
}

void BlockServer::invalidate_where_it_protects() noexcept {
  impl_->server.invalidate_where_it_protects();
}

const Server& BlockServer::transport() const noexcept {
  return impl_->server;
}

bool BlockServer::take_news(PathEvent& news) {
  return impl_->server.take_news(news);
}

std::vector<RequestInFlight> BlockServer::in_flight(std::uint16_t index) const {
  std::vector<RequestInFlight> all = impl_->server.in_flight(index);
  const Impl::Session* session = impl_->find(index);
  if (session == nullptr) return all;
  for (std::uint16_t i = 0; i < session->operations.size(); ++i) {
    const Impl::Session::Operation& operation = session->operations[i];
    if (operation.kind != Impl::OpKind::storage && operation.kind != Impl::OpKind::open) continue;
    // If a chunk has two requests, the list contains the one that uses the chunk before the one that waits.
    const auto request =
        std::lower_bound(all.begin(), all.end(), operation.chunk,
                         [](const RequestInFlight& one, std::uint16_t chunk) { return one.chunk < chunk; });
    if (request == all.end() || request->chunk != operation.chunk ||
        request->waits != RequestInFlight::Waits::devices)
      continue;
    request->waits = operation.kind == Impl::OpKind::storage ? RequestInFlight::Waits::storage
                                                             : RequestInFlight::Waits::open;
    request->since = operation.since;
    request->operation = static_cast<std::uint64_t>(impl_->id_of(*session, i));
  }
  return all;
}

const rnbd::ServerDevices* BlockServer::devices(std::uint16_t session) const noexcept {
  const Impl::Session* found = impl_->find(session);
  return found == nullptr ? nullptr : &found->devices;
}

const BlockServerStats& BlockServer::stats() const noexcept {
  return impl_->counted;
}

}  // namespace rtrs
