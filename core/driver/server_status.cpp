// Collects the server status for operators.
#include <algorithm>

#include "core/driver/server_impl.hpp"

namespace rtrs {

namespace {

ServerPathStatus status_of(const ServerSession& machine, unsigned index) {
  const ServerPath& path = machine.path(index);
  ServerPathStatus one;
  one.path = index;
  one.state = path.state;
  one.reason = path.reason;
  one.in_service = path.in_use;
  one.connections = path.open_cons;
  one.extensions = path.extensions;
  one.connections_wanted = static_cast<std::uint32_t>(path.cons.size());
  one.answers_waiting = path.waiting;
  one.fences_waiting = static_cast<std::uint32_t>(
      std::count_if(machine.fences().begin(), machine.fences().end(),
                    [index](const PendingFence& fence) { return fence.target == index; }));
  one.handshake_deadline = path.handshake_deadline;
  one.heartbeat_deadline = path.heartbeat.deadline();
  if (path.state == PathState::connected) one.silent_since = path.heartbeat.silent_since();
  return one;
}

// Fills the fields that the state machine knows; the caller adds those that the driver stores.
RequestInFlight request_of(std::uint16_t chunk, const ChunkUser& user, RequestInFlight::Waits waits) {
  RequestInFlight one;
  one.session = user.key.session;
  one.chunk = chunk;
  one.con = user.key.con;
  one.path = user.key.path;
  one.waits = waits;
  one.direction = user.direction;
  return one;
}

RequestInFlight::Waits waits_of(ServerChunk::State state) {
  return state == ServerChunk::State::invalidating ? RequestInFlight::Waits::key
         : state == ServerChunk::State::answering  ? RequestInFlight::Waits::send_queue
                                                   : RequestInFlight::Waits::devices;
}

}  // namespace

std::vector<ServerSessionStatus> Server::sessions() const {
  std::vector<ServerSessionStatus> all;
  for (const auto& session : impl_->sessions) {
    if (session == nullptr) continue;
    ServerSessionStatus one;
    one.session = session->machine.index();
    one.opened = session->opened;
    one.closing = session->machine.closing();
    one.name = session->name;
    one.identity = session->identity;
    for (unsigned index = 0; index < session->machine.path_limit(); ++index) {
      if (session->machine.path_state(index) == PathState::absent) continue;
      ServerPathStatus& path = one.paths.emplace_back(status_of(session->machine, index));
      const Impl::Path& own = session->paths[index];
      path.peer = own.peer;
      path.device = own.device;
      path.since = own.since;
      path.traffic = own.traffic;
      path.times = own.times.get();
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<RequestInFlight> Server::in_flight(std::uint16_t index) const {
  std::vector<RequestInFlight> all;
  const Impl::Session* session = impl_->find(index);
  if (session == nullptr) return all;
  const auto add = [&](std::uint16_t chunk, const ChunkUser& user, RequestInFlight::Waits waits) {
    RequestInFlight one = request_of(chunk, user, waits);
    if (const StoredRequest* stored = session->requests.of(chunk, user.key)) {
      one.data_len = stored->data_len;
      one.arrived = one.since = stored->arrived;
      one.user_header = session->requests.user_header(chunk, *stored);
    }
    all.push_back(one);
  };
  const auto& chunks = session->machine.chunks();
  for (std::uint16_t i = 0; i < chunks.size(); ++i) {
    const ServerChunk& chunk = chunks[i];
    if (chunk.state != ServerChunk::State::idle) add(i, chunk.user, waits_of(chunk.state));
    if (chunk.has_parked) add(i, chunk.parked, RequestInFlight::Waits::gate);
  }
  return all;
}

Errc Server::reset_statistics(std::uint16_t session, unsigned path) noexcept {
  Impl::Session* found = impl_->find(session);
  if (found == nullptr || found->machine.path_state(path) == PathState::absent) return Errc::no_such_path;
  found->paths[path].traffic = Traffic{};
  if (found->paths[path].times != nullptr) found->paths[path].times->clear();
  return Errc::ok;
}

}  // namespace rtrs
