#include "core/driver/client.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/driver/client_impl.hpp"

namespace rtrs {

Client::Impl::Impl(const ClientOptions& given, Recorder* recorder_)
    : options(given), recorder(recorder_), tap(recorder_), session(given.protocol) {
  options.path_uuids.resize(kMaxPaths);
  waiting.open(std::max<std::size_t>(options.max_queued, 1));
  finished.open(options.max_queued + kMaxPermits + 1);
  news.open(kNewsCapacity);
  scratch.resize(wire::kInfoReqBytes);
}

Client::Client(const ClientOptions& options, Recorder* recorder)
    : impl_(std::make_unique<Impl>(options, recorder)) {}
Client::Impl::~Impl() {
  if (recorder != nullptr) recorder->forget(kInstance, &session);
}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Errc Client::open(Fabric& fabric, Nanos now) {
  impl_->bind(fabric);
  Impl& impl = *impl_;
  if (impl.options.protocol.send_depth < 8 || impl.options.protocol.heartbeat.interval == 0)
    return Errc::invalid;
  if (impl.options.paths.empty() || impl.options.paths.size() > kMaxPaths) return Errc::invalid;
  if (!wire::valid_session_name(impl.options.session_name)) return Errc::invalid;
  if (impl.options.session_uuid == wire::Uuid{}) return Errc::invalid;
  if (impl.recorder != nullptr) {
    impl.recorder->begin(now, Impl::kInstance, MachineKind::client_session, impl.options.protocol);
    impl.recorder->watch(Impl::kInstance, MachineKind::client_session, impl.session);
  }
  for (const PathAddress& address : impl.options.paths) {
    const Errc added = add_path(fabric, now, address);
    if (added != Errc::ok) return added;
  }
  return Errc::ok;
}

Errc Client::add_path(Fabric& fabric, Nanos now, const PathAddress& address) {
  impl_->bind(fabric);
  Impl& impl = *impl_;
  if (impl.session.closing()) return Errc::session_closed;
  std::uint16_t index = kMaxPaths;  // first free index
  for (std::uint16_t i = kMaxPaths; i-- > 0;) {
    if (impl.session.path(i).state() == PathState::absent)
      index = i;
    else if (impl.path_data[i].address == address)
      return Errc::path_exists;
  }
  if (index == kMaxPaths || impl.options.path_uuids[index] == wire::Uuid{}) return Errc::invalid;
  if (!impl.provide_path(index)) return Errc::no_memory;
  impl.path_data[index].address = address;
  impl.feed(fabric, PathAdded{now, index});
  return impl.session.path(index).state() == PathState::absent ? Errc::no_memory : Errc::ok;
}

bool Client::Impl::provide_path(unsigned index) {
  try {
    if (path_data.size() <= index) path_data.resize(index + 1U);
    if (status.size() <= index) status.resize(index + 1U);
  } catch (const std::bad_alloc&) {
    return false;
  }
  path_data[index] = PathData{};
  path_data[index].uuid = options.path_uuids[index];
  status[index] = PathStatus{};
  return true;
}

namespace {
bool listed(const ClientSession& session, unsigned path) {
  return session.path(path).state() != PathState::absent;
}
}  // namespace

Errc Client::remove_path(Fabric& fabric, Nanos now, unsigned path) {
  impl_->bind(fabric);
  if (!listed(impl_->session, path)) return Errc::no_such_path;
  impl_->feed(fabric, PathRemoveRequested{now, static_cast<std::uint16_t>(path)});
  return Errc::ok;
}

Errc Client::disconnect_path(Fabric& fabric, Nanos now, unsigned path) {
  impl_->bind(fabric);
  if (!listed(impl_->session, path)) return Errc::no_such_path;
  impl_->feed(fabric, PathDisconnectRequested{now, static_cast<std::uint16_t>(path)});
  return Errc::ok;
}

Errc Client::reconnect_path(Fabric& fabric, Nanos now, unsigned path) {
  impl_->bind(fabric);
  if (!listed(impl_->session, path)) return Errc::no_such_path;
  impl_->feed(fabric, PathReconnectRequested{now, static_cast<std::uint16_t>(path)});
  return Errc::ok;
}

unsigned Client::recover(Fabric& fabric, Nanos now) {
  impl_->bind(fabric);
  unsigned tried = 0;
  for (unsigned index = 0; index < impl_->status.size(); ++index) {
    const ClientPath& path = impl_->session.path(index);
    const bool well = path.state() == PathState::connected || path.state() == PathState::connecting;
    if (well || path.state() == PathState::absent || path.goal() == ClientPath::Goal::remove) continue;
    impl_->feed(fabric, PathReconnectRequested{now, static_cast<std::uint16_t>(index)});
    ++tried;
  }
  return tried;
}

void Client::forget_region(Fabric& fabric, RegionId region) {
  impl_->bind(fabric);
  auto& remote_keys = impl_->remote_keys;
  if (region >= remote_keys.size() || remote_keys[region].id == kNoRemoteKey) return;
  fabric.release_key(remote_keys[region].id);
  remote_keys[region] = RemoteKey{};
}

void Client::set_policy(Fabric& fabric, Nanos now, MultipathPolicy policy) {
  impl_->bind(fabric);
  impl_->feed(fabric, PolicyChanged{now, policy});
}

void Client::set_max_reconnect_attempts(Fabric& fabric, Nanos now, std::int32_t most) {
  impl_->bind(fabric);
  impl_->feed(fabric, AttemptsChanged{now, most});
}

void Client::close(Fabric& fabric, Nanos now) {
  impl_->bind(fabric);
  Impl& impl = *impl_;
  impl.feed(fabric, CloseRequested{now});
  while (!impl.waiting.empty()) {
    impl.finish(impl.waiting.front().request.user_data, Errc::session_closed, 0);
    impl.waiting.pop();
  }
}

Errc Client::submit(Fabric& fabric, Nanos now, const IoRequest& request) {
  impl_->bind(fabric);
  Impl& impl = *impl_;
  if (impl.session.closing()) return Errc::session_closed;
  if (!impl.session.opened()) return Errc::not_open;
  if (request.user_header.size() > kMaxUserHeader) return Errc::invalid;
  if (request.data.size() > impl.session.max_io_size()) return Errc::too_large;
  if (request.user_header.size() + wire::kMaxIoHeaderBytes > impl.session.max_hdr_size())
    return Errc::too_large;
  if (impl.inflight >= impl.options.max_queued + impl.session.depth()) return Errc::queue_full;
  if (impl.waiting.empty() && impl.session.next_permit() != kNoPermit) {
    ++impl.inflight;
    impl.start(fabric, now, request, request.user_header);
    return Errc::ok;
  }
  if (impl.waiting.full()) return Errc::queue_full;
  ++impl.inflight;
  Impl::Waiting& item = impl.waiting.push();
  item.since = now;
  item.request = request;
  std::copy(request.user_header.begin(), request.user_header.end(), item.header.begin());
  return Errc::ok;
}

void Client::Impl::start(Fabric& fabric, Nanos now, const IoRequest& request,
                         std::span<const std::byte> header) {
  const std::uint16_t permit = session.next_permit();
  Slot& slot = slots[permit];
  // slot.remote_key is empty, because a request releases its key when it ends.
  slot.user_data = request.user_data;
  slot.data = request.data;
  slot.direction = request.direction;
  slot.usr_len = static_cast<std::uint32_t>(header.size());
  slot.copied = request.region == kNoRegion;
  slot.region = slot.copied ? buffers.id : request.region;
  slot.region_offset = slot.copied ? permit * session.max_io_size() : request.region_offset;
  if (slot.copied && request.direction == Direction::write && !request.data.empty())
    std::memcpy(buffers.bytes.data() + slot.region_offset, request.data.data(), request.data.size());
  if (!header.empty())
    std::memcpy(headers.bytes.data() + permit * kHeaderBytes, header.data(), header.size());
  const bool offers =
      options.protocol.offer_invalidation && request.direction == Direction::read && !request.data.empty();
  feed(fabric, Submitted{now, permit, request.direction, request.service, offers, request.affinity,
                         static_cast<std::uint32_t>(request.data.size()), slot.usr_len});
}

// Starts waiting requests, oldest first, while permits are free. Without a connected path, requests stay in
// this queue, because their queue_timeout would start again in the session.
void Client::Impl::start_waiting(Fabric& fabric, Nanos now) {
  while (!waiting.empty() && session.connected_paths() > 0 && session.next_permit() != kNoPermit) {
    const Waiting& item = waiting.front();
    start(fabric, now, item.request, std::span(item.header).first(item.request.user_header.size()));
    waiting.pop();
  }
}

// Fails requests that have waited for queue_timeout. A request may lack a permit although a path is
// connected, because permits of failed requests that the server may still execute are not freed.
void Client::Impl::fail_waiting(Nanos now) noexcept {
  while (waiting_deadline() <= now) {
    const Errc result = session.connected_paths() > 0 ? Errc::no_permit : Errc::no_path;
    finish(waiting.front().request.user_data, result, 0);
    waiting.pop();
  }
}

std::size_t Client::Impl::take_batch(Fabric& fabric, Nanos now) {
  const std::size_t count = fabric.poll(now, fabric_events);
  for (const FabricEvent& event : std::span(fabric_events).first(count)) handle(fabric, now, event);
  return count;
}

// Processes all pending fabric events before a due deadline, because the response that the deadline waits for
// may be among them, for example after the process was paused. Bounded, so that a peer cannot postpone
// deadlines.
void Client::Impl::take_events(Fabric& fabric, Nanos now) {
  constexpr std::size_t kMostEvents = 4096;
  std::size_t taken = take_batch(fabric, now);
  const auto due = [this] { return std::min(next_deadline(), waiting_deadline()); };
  unsigned empty = 0;
  while (taken < kMostEvents && due() <= now) {
    const std::size_t got = take_batch(fabric, now);
    taken += got;
    if (got != 0) {
      empty = 0;
    } else if (++empty == 2 || fabric.try_wait()) {
      // try_wait() also makes a fabric check sources that it polls rarely; the next poll() returns the events
      // that it found.
      break;
    }
  }
}

std::size_t Client::poll(Fabric& fabric, Nanos now, std::span<IoCompletion> completions) {
  impl_->bind(fabric);
  Impl& impl = *impl_;
  impl.posts.flush(fabric);
  impl.take_events(fabric, now);
  // Each step closes at most one path; the bound exceeds the number of paths and fences that can be due at
  // once.
  for (unsigned step = 0; step < 4 * impl.session.path_limit() && impl.next_deadline() <= now; ++step)
    impl.feed(fabric, DeadlineReached{now});
  while (impl.session.wants_to_continue()) impl.feed(fabric, Continued{now});
  impl.fail_waiting(now);
  impl.start_waiting(fabric, now);
  std::size_t taken = 0;
  while (taken < completions.size() && !impl.finished.empty()) {
    completions[taken++] = impl.finished.front();
    impl.finished.pop();
  }
  impl.inflight -= static_cast<unsigned>(taken);
  return taken;
}

void Client::Impl::finish(std::uint64_t user_data, Errc result, std::uint16_t peer_errno) noexcept {
  if (result != Errc::ok) ++stats.errors;
  finished.push() = IoCompletion{user_data, result, peer_errno};
}

void Client::Impl::queue_event(PathEvent::Kind kind, Nanos at) noexcept {
  if (news.full()) news.pop();
  PathEvent& item = news.push();
  item = PathEvent{};
  item.kind = kind;
  item.at = at;
}

Nanos Client::next_deadline() const noexcept {
  const Impl& impl = *impl_;
  if (impl.session.wants_to_continue() || !impl.finished.empty() || !impl.posts.idle()) return 0;
  return next_timer();
}

Nanos Client::next_timer() const noexcept {
  return std::min(impl_->next_deadline(), impl_->waiting_deadline());
}

Nanos Client::queue_ends(Nanos since) const noexcept {
  return impl_->session.path_wait_ends(since);
}

bool Client::link_up() const noexcept {
  return impl_->session.connected_paths() > 0;
}
bool Client::peer_extends() const noexcept {
  return impl_->session.peer_extends();
}
bool Client::closed() const noexcept {
  return impl_->ended;
}
unsigned Client::inflight() const noexcept {
  return impl_->inflight;
}
std::uint32_t Client::depth() const noexcept {
  return impl_->session.depth();
}
std::uint32_t Client::max_io_size() const noexcept {
  return impl_->session.opened() ? impl_->session.max_io_size() : 0;
}

bool Client::has_news() const noexcept {
  return !impl_->news.empty();
}

bool Client::take_news(PathEvent& into) {
  if (impl_->news.empty()) return false;
  into = impl_->news.front();
  impl_->news.pop();
  return true;
}

std::span<const PathStatus> Client::paths() const noexcept {
  for (unsigned index = 0; index < impl_->status.size(); ++index) {
    const ClientPath& path = impl_->session.path(index);
    PathStatus& status = impl_->status[index];
    status.inflight = path.inflight();
    status.heartbeat_latency = path.latency();
    status.retry_at = path.state() == PathState::waiting ? path.deadline() : 0;
    status.held_back = path.held_back();
    status.ios = impl_->completed_ios(index);
    status.silent_since = path.silent_since();
  }
  return impl_->status;
}

const PathAddress& Client::address(unsigned path) const noexcept {
  return impl_->path_data[path].address;
}
const std::string& Client::peer(unsigned path) const noexcept {
  return impl_->path_data[path].peer;
}
const DevicePort& Client::device(unsigned path) const noexcept {
  return impl_->path_data[path].device;
}
const AnswerTimes& Client::answer_times(unsigned path, Direction direction) const noexcept {
  return impl_->path_data[path].times[static_cast<std::size_t>(direction)];
}
MultipathPolicy Client::policy() const noexcept {
  return impl_->session.config().policy;
}
std::int32_t Client::max_reconnect_attempts() const noexcept {
  return impl_->session.config().max_reconnect_attempts;
}
std::size_t Client::queued() const noexcept {
  return impl_->waiting.size();
}

Errc Client::reset_statistics(unsigned path, PathStatistics what) noexcept {
  if (path >= impl_->status.size()) return Errc::no_such_path;
  PathStatus& status = impl_->status[path];
  if (what != PathStatistics::reconnects) {
    status.traffic = Traffic{};
    impl_->path_data[path].ios_before_reset = impl_->completed_ios(path);
    impl_->path_data[path].times = {};
    status.failovers = 0;
  }
  if (what != PathStatistics::traffic) {
    status.reconnects = 0;
    status.failed_attempts = 0;
  }
  return Errc::ok;
}

bool Client::oldest_in_flight(OldestRequest& oldest) const noexcept {
  return impl_->session.oldest_in_flight(oldest);
}

const ClientStats& Client::stats() const noexcept {
  impl_->stats.stale_events = impl_->session.counters().stale_events;
  impl_->stats.stale_responses = impl_->session.counters().stale_responses;
  impl_->stats.unproven_failures = impl_->session.counters().unproven_failures;
  impl_->stats.permits_given_up = impl_->session.permits_given_up();
  return impl_->stats;
}
std::uint64_t Client::fingerprint() const noexcept {
  return impl_->session.fingerprint();
}
const char* Client::broken_invariant() const noexcept {
  return impl_->session.broken_invariant();
}

}  // namespace rtrs
