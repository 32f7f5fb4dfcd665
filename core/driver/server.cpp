#include "core/driver/server.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "core/base/fingerprint.hpp"
#include "core/driver/server_impl.hpp"
#include "core/proto/server_invariants.hpp"

namespace rtrs {

Server::Impl::Impl(const ServerConfig& options, Recorder* r)
    : config(options),
      recorder(r),
      tap(r),
      registry(options),
      sessions(std::min<unsigned>(options.max_sessions, kMaxSessions)),
      deadlines(sessions.size()) {
  runs.reserve(options.queue_depth);
  reserve_events();
}

// Reserves room for all events that can be pending before the application polls: one request per chunk, and
// the opened and closed events of every session.
void Server::Impl::reserve_events() {
  constexpr std::size_t kSpare = 64;
  const std::size_t needed =
      (live + 1U) * (std::size_t{config.queue_depth} + 2) + 2 * sessions.size() + kSpare;
  if (needed <= event_capacity) return;
  // Doubles the capacity, so that adding sessions one by one does not copy all events each time.
  const std::size_t capacity = std::max(needed, 2 * event_capacity);
  Ring<ServerEvent> larger;
  larger.open(capacity);
  for (; !events.empty(); events.pop()) larger.push() = events.front();
  events = std::move(larger);
  event_capacity = capacity;
}

// Returns the configuration for a session whose first connection is `request`, reduced to the capabilities of
// its device.
ServerConfig Server::Impl::config_over(const Fabric& fabric, std::uint32_t request) const noexcept {
  const Capabilities& all = fabric.capabilities();
  const Capabilities& own = fabric.capabilities_of_request(request);
  ServerConfig fitted = config;
  fitted.send_invalidate = fitted.send_invalidate && own.send_invalidate;
  if (where_it_protects) fitted.always_invalidate = fitted.always_invalidate && fresh_keys_protect(own);
  if (all.send_invalidate_is_slow && !own.send_invalidate_is_slow)
    fitted.extensions &= ~wire::Extensions::keys_stay;
  return fitted;
}

Server::Impl::Session* Server::Impl::create(Nanos now, std::uint16_t index, const Fabric& fabric,
                                            std::uint32_t request) {
  try {
    const ServerConfig own = config_over(fabric, request);
    auto session = std::make_unique<Session>(own, index);
    session->name.reserve(wire::kMaxNameBytes);
    session->refused_name.reserve(wire::kMaxNameBytes);
    session->identity = fabric.identity_of_request(request);
    sessions[index] = std::move(session);
    ++live;
    if (recorder != nullptr) {
      const InstanceId instance = instance_of(*sessions[index]);
      recorder->begin(now, instance, MachineKind::server_session, own, index);
      recorder->watch(instance, MachineKind::server_session, sessions[index]->machine);
    }
    reserve_events();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return sessions[index].get();
}

// Undoes the admission of a session for which there is no memory.
void Server::Impl::forget(Nanos now, std::uint16_t index) {
  if (sessions[index] != nullptr) {
    --live;
    if (recorder != nullptr) recorder->end(now, instance_of(*sessions[index]));
  }
  sessions[index] = nullptr;
  drop(now, index);
}

void Server::Impl::retire(Fabric& fabric, Nanos now, Session& session) {
  const std::uint16_t index = session.machine.index();
  if (session.chunks.id != kNoRegion) fabric.release(session.chunks.id);
  session.chunks = Region{};
  of_retired.stale_events += session.machine.counters().stale_events;
  of_retired.dropped_responses += session.machine.counters().dropped_responses;
  of_retired.gated += session.machine.counters().gated;
  retired.push_back(std::move(sessions[index]));
  --live;
  deadlines.set(index, kNever);
  if (recorder != nullptr) recorder->end(now, session_instance(index));
  drop(now, index);
}

void Server::Impl::drop(Nanos now, std::uint16_t index) {
  RegistryActions nothing;
  ask_registry(SessionDropped{now, index}, nothing);
}

std::size_t Server::Impl::take_batch(Fabric& fabric, Nanos now) {
  const std::size_t count = fabric.poll(now, fabric_events);
  for (const FabricEvent& event : std::span(fabric_events).first(count)) handle(fabric, now, event);
  return count;
}

// Returns true if poll() should take more fabric events first. If a deadline is due, the message that it
// waits for may be pending, for example after the process was paused. A fabric may report fewer events than
// it holds.
bool Server::Impl::may_hold_more(Fabric& fabric, std::size_t got, bool due, unsigned& empty) {
  if (got == fabric_events.size()) return true;
  if (!due) return false;
  empty = got == 0 ? empty + 1 : 0;
  // try_wait() also makes a fabric check sources that it polls rarely; the next poll() returns the events
  // that it found.
  return got != 0 || (empty < 2 && !fabric.try_wait());
}

void Server::Impl::run_deadlines(Fabric& fabric, Nanos now) {
  // One step may leave another path of its session overdue. The loop is bounded in case a state machine does
  // not advance its deadline; remaining deadlines are due again at the next poll.
  for (std::size_t left = (kMaxPaths + 1) * sessions.size(); left > 0 && deadlines.first() <= now; --left) {
    const std::uint16_t index = deadlines.first_index();
    if (sessions[index]->machine.next_deadline() <= now) feed(fabric, *sessions[index], DeadlineReached{now});
    if (sessions[index] != nullptr) set_timer(*sessions[index]);
  }
}

void Server::Impl::announce(ServerEvent::Kind kind, const Session& session) {
  ServerEvent& event = events.push();
  event = ServerEvent{};
  event.kind = kind;
  event.session = session.machine.index();
  if (kind == ServerEvent::Kind::session_opened) event.name = session.name;
}

std::size_t Server::Impl::take(std::span<ServerEvent> out) {
  std::size_t taken = 0;
  for (; taken < out.size() && !events.empty(); events.pop()) out[taken++] = events.front();
  return taken;
}

Server::Server(const ServerConfig& config, Recorder* recorder)
    : impl_(std::make_unique<Impl>(config, recorder)) {}
Server::Impl::~Impl() {
  if (recorder == nullptr) return;
  recorder->forget(kRegistry, &registry);
  for (const auto& session : sessions) {
    if (session != nullptr) recorder->forget(instance_of(*session), &session->machine);
  }
}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

namespace {

Errc check(const ServerConfig& config, const Capabilities& fabric) noexcept {
  const bool geometry = config.queue_depth >= 1 && config.queue_depth <= kMaxPermits &&
                        std::has_single_bit(config.chunk_size) && config.chunk_size >= 8192 &&
                        config.max_hdr_size < config.chunk_size &&
                        wire::check_geometry(config.queue_depth, config.chunk_size) == wire::Refusal::none;
  const bool rest = config.send_depth >= 8 && config.max_sessions >= 1 && config.heartbeat.interval > 0;
  if (!geometry || !rest) return Errc::invalid;
  ServerConfig fitted = clamp_to(config, fabric);
  fitted.probe_deliveries = fitted.probe_deliveries && config.probe_deliveries;  // config may disable probes
  const bool receives =
      fabric.max_receive_depth == 0 || server_receives(config, 0, false) < fabric.max_receive_depth;
  const bool fences = !config.always_invalidate || fabric.invalidation;
  return fitted == config && receives && fences ? Errc::ok : Errc::not_supported;
}

}  // namespace

Errc Server::listen(Fabric& fabric, Nanos now, const PathAddress& local) {
  impl_->bind(fabric);
  const Errc usable = check(impl_->config, fabric.capabilities());
  if (usable != Errc::ok) return usable;
  if (!impl_->listening && impl_->recorder != nullptr) {
    impl_->recorder->begin(now, Impl::kRegistry, MachineKind::server_registry, impl_->config);
    impl_->recorder->watch(Impl::kRegistry, MachineKind::server_registry, impl_->registry);
  }
  impl_->listening = true;
  return fabric.listen(local);
}

std::size_t Server::poll(Fabric& fabric, Nanos now, std::span<ServerEvent> out) {
  impl_->bind(fabric);
  Impl& impl = *impl_;
  RTRS_ASSERT(!impl.gathering);
  if (impl.events.empty()) impl.retired.clear();
  impl.posts.flush(fabric);
  impl.setup_cost = 0;
  std::size_t count = impl.take(out);
  unsigned empty = 0;
  // Takes no new event before the old ones are handed out; this limits the queue.
  for (std::size_t taken = 0; impl.events.empty();) {
    impl.invalidates = false;
    std::size_t got = impl.take_batch(fabric, now);
    // Most fabrics complete invalidations at once. A second batch takes these completions, so that the
    // requests start in this poll.
    if (impl.invalidates && got < impl.fabric_events.size()) got += impl.take_batch(fabric, now);
    taken += got;
    impl.continue_setups(fabric, now);
    count += impl.take(out.subspan(count));
    const bool due = next_timer() <= now;
    impl.events_since_due = due ? impl.events_since_due + got : 0;
    if (taken < Impl::kMostEvents && impl.events_since_due < Impl::kMostEvents &&
        impl.may_hold_more(fabric, got, due, empty)) {
      if (count < out.size()) continue;
      break;
    }
    // A delayed set-up message may be the one that the deadline waits for.
    if (due && !impl.set_ups.empty() && impl.events_since_due < Impl::kMostEvents) {
      impl.events_since_due += Impl::kEventsOfShare;
      break;
    }
    if (due) impl.run_deadlines(fabric, now);
    impl.events_since_due = 0;
    count += impl.take(out.subspan(count));
    break;
  }
  return count;
}

void Server::respond(Fabric& fabric, Nanos now, RequestId id, std::uint16_t peer_errno) {
  impl_->bind(fabric);
  Impl::Session* session = impl_->find(id.session);
  RTRS_ASSERT(session != nullptr);
  impl_->feed(fabric, *session, Responded{now, id.chunk, id.serial, peer_errno});
}

Server::ResponseBatch::ResponseBatch(Server& server, Fabric& fabric) noexcept
    : server_(server), fabric_(fabric) {
  server_.impl_->bind(fabric);
  RTRS_ASSERT(!server_.impl_->gathering);
  server_.impl_->gathering = true;
}

Server::ResponseBatch::~ResponseBatch() {
  server_.impl_->gathering = false;
  server_.impl_->posts.flush(fabric_);
}

Nanos Server::next_timer() const noexcept {
  return impl_->deadlines.first();
}

// Work requests that the fabric did not accept, and delayed set-ups, need another poll at once.
Nanos Server::next_deadline() const noexcept {
  const bool idle = impl_->events.empty() && impl_->posts.idle() && impl_->set_ups.empty();
  return idle ? next_timer() : 0;
}

Errc Server::disconnect_path(Fabric& fabric, Nanos now, std::uint16_t session, unsigned path) {
  impl_->bind(fabric);
  Impl::Session* found = impl_->find(session);
  if (found == nullptr || found->machine.path_state(path) == PathState::absent) {
    return Errc::no_such_path;
  }
  impl_->feed(fabric, *found, PathDisconnectRequested{now, static_cast<std::uint16_t>(path)});
  return Errc::ok;
}

void Server::close_session(Fabric& fabric, Nanos now, std::uint16_t session) {
  impl_->bind(fabric);
  Impl::Session* found = impl_->find(session);
  if (found != nullptr) impl_->feed(fabric, *found, CloseRequested{now});
}

void Server::close(Fabric& fabric, Nanos now) {
  impl_->bind(fabric);
  impl_->closing = true;
  for (std::size_t i = 0; i < impl_->sessions.size(); ++i) {
    close_session(fabric, now, static_cast<std::uint16_t>(i));
  }
}

bool Server::closed() const noexcept {
  return impl_->closing && impl_->live == 0;
}

unsigned Server::session_count() const noexcept {
  return impl_->live;
}

std::string Server::peer(std::uint16_t session) const {
  const auto& sessions = impl_->sessions;
  if (session >= sessions.size() || sessions[session] == nullptr) return {};
  const Impl::Session& asked = *sessions[session];
  std::string last;
  for (const Impl::Path& path : asked.paths) {
    if (path.up) return path.peer;
    if (!path.peer.empty()) last = path.peer;
  }
  return last;
}

std::string Server::identity(std::uint16_t session) const {
  const Impl::Session* const asked = impl_->find(session);
  return asked == nullptr ? std::string() : asked->identity;
}

void Server::set_access(AccessRules rules) {
  impl_->access = std::move(rules);
}

void Server::invalidate_where_it_protects() noexcept {
  impl_->where_it_protects = true;
}

bool Server::take_news(PathEvent& out) {
  if (impl_->news.empty()) return false;
  out = impl_->news.front();
  impl_->news.pop_front();
  return true;
}

const ServerStats& Server::stats() const noexcept {
  ServerStats& shown = impl_->shown;
  shown = impl_->counted;
  const auto add = [&shown](const ServerSession::Counters& counters) {
    shown.stale_events += counters.stale_events;
    shown.dropped_responses += counters.dropped_responses;
    shown.gated += counters.gated;
  };
  add(impl_->of_retired);
  for (const auto& session : impl_->sessions) {
    if (session != nullptr) add(session->machine.counters());
  }
  return shown;
}

std::uint64_t Server::fingerprint() const noexcept {
  Fingerprint hash;
  hash.add(impl_->registry.fingerprint());
  for (const auto& session : impl_->sessions) {
    if (session != nullptr) hash.add(session->machine.fingerprint());
  }
  return hash.value();
}

const char* Server::broken_invariant() const noexcept {
  for (const auto& session : impl_->sessions) {
    if (session == nullptr) continue;
    if (const char* rule = rtrs::broken_invariant(session->machine)) return rule;
  }
  return nullptr;
}

}  // namespace rtrs
