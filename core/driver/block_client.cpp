#include "core/driver/block_client.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "core/driver/block_client_impl.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

namespace {

constexpr std::uint32_t kMinQueued = 256;
constexpr std::uint32_t kRoomForMessages = 1 + 2 * rnbd::kMaxClientDevices;
static_assert(kRoomForMessages < kMinQueued);

}  // namespace

BlockClient::Impl::Impl(const BlockClientOptions& options, Recorder* recorder_)
    : session(options.session, recorder_),
      recorder(recorder_),
      max_requests(options.max_requests),
      queue_timeout(options.session.protocol.queue_timeout),
      max_pieces(options.session.max_queued - std::min(options.session.max_queued, kRoomForMessages)),
      can_open(options.session.max_queued >= kMinQueued) {
  events.open(kEvents);
}

BlockClient::Impl::~Impl() {
  if (recorder != nullptr) recorder->forget(kClientDevices, &devices);
}

// Starts the recording before the first input. If memory is exhausted, throws bad_alloc with nothing changed.
// map() may be called before open().
void BlockClient::Impl::begin_record(Nanos now) {
  if (recorder == nullptr || begun) return;
  recorder->begin(kClientDevices, trace::BeginClientDevices{now});
  try {
    recorder->watch(kClientDevices, MachineKind::client_devices, devices);
  } catch (const std::bad_alloc&) {
    recorder->end(now, kClientDevices);
    throw;
  }
  begun = true;
}

BlockClient::BlockClient(const BlockClientOptions& options, Recorder* recorder)
    : impl_(std::make_unique<Impl>(options, recorder)) {}
BlockClient::~BlockClient() = default;

Errc BlockClient::open(Fabric& fabric, Nanos now) {
  if (impl_->close_begun) return Errc::session_closed;
  if (!impl_->can_open) return Errc::invalid;
  impl_->begin_record(now);
  const Errc result = impl_->session.open(fabric, now);
  impl_->opened = result == Errc::ok;
  return result;
}

rnbd::MapOutcome BlockClient::map(Fabric& fabric, Nanos now, std::string_view name,
                                  wire::rnbd::AccessMode mode) {
  Impl& impl = *impl_;
  if (impl.close_begun) return {wire::linux_errno::kEshutdown, 0};
  impl.begin_record(now);
  const rnbd::MapOutcome outcome = impl.step(now, rnbd::MapRequested{name, mode});
  if (outcome.error != 0) return outcome;
  Impl::Device& device = impl.device_of(outcome.device);
  device.handle = outcome.device;
  device.writable = rnbd::is_writable(mode);
  impl.slots = std::max(impl.slots, rnbd::slot_of(outcome.device) + 1U);
  impl.perform(fabric, now);
  return outcome;
}

void BlockClient::unmap(Fabric& fabric, Nanos now, rnbd::DeviceHandle device) {
  impl_->begin_record(now);
  impl_->feed(fabric, now, rnbd::UnmapRequested{device});
  impl_->issue(fabric, now);
}

void BlockClient::remap(Fabric& fabric, Nanos now, rnbd::DeviceHandle device) {
  impl_->begin_record(now);
  impl_->feed(fabric, now, rnbd::RemapRequested{device});
}

bool BlockClient::resize(Fabric& fabric, Nanos now, rnbd::DeviceHandle device, std::uint64_t sectors) {
  const rnbd::Geometry* const before = impl_->devices.geometry(device);
  if (before == nullptr) return false;
  rnbd::Geometry resized = *before;
  resized.nsectors = sectors;
  if (!rnbd::valid(resized)) return false;
  impl_->begin_record(now);
  impl_->feed(fabric, now, rnbd::ResizeRequested{device, sectors});
  return true;
}

Errc BlockClient::submit(Fabric& fabric, Nanos now, rnbd::DeviceHandle device, const BlockRequest& request) {
  Impl& impl = *impl_;
  if (impl.close_begun) return Errc::session_closed;
  if (impl.under_way == impl.max_requests) return Errc::queue_full;
  impl.begin(fabric, now, impl.take_request(device, now, request));
  return Errc::ok;
}

std::size_t BlockClient::poll(Fabric& fabric, Nanos now, std::span<BlockCompletion> out) {
  Impl& impl = *impl_;
  const std::size_t count = impl.session.poll(fabric, now, impl.completions);
  for (const IoCompletion& one : std::span(impl.completions).first(count)) impl.on_done(fabric, now, one);
  while (impl.session.take_news(impl.path_event)) impl.on_news(fabric, now, impl.path_event);
  impl.run_timers(fabric, now);
  if (impl.queued != 0) impl.issue(fabric, now);
  // Runs after issue(), because a request that can be sent now is not overdue.
  if (impl.held_until() <= now) impl.end_held(now);
  std::size_t taken = 0;
  while (taken < out.size() && !impl.finished.empty()) {
    const std::uint32_t index = impl.finished.pop_front(impl.requests);
    const Impl::Request& request = impl.requests[index];
    out[taken++] = BlockCompletion{request.io.user_data, request.result.result, request.result.error};
    impl.free_requests.push_back(impl.requests, index);
  }
  impl.under_way -= static_cast<std::uint32_t>(taken);
  return taken;
}

Nanos BlockClient::next_deadline() const noexcept {
  const Impl& impl = *impl_;
  if (!impl.finished.empty()) return 0;
  if (impl.session.has_news())
    return 0;  // a direct call to the session caused path events, which the devices must process
  return std::min(impl.session.next_deadline(), next_timer());
}

Nanos BlockClient::next_timer() const noexcept {
  const Impl& impl = *impl_;
  return std::min(
      {impl.session.next_timer(), impl.retry_at, impl.reopen_at, impl.grace_ends, impl.held_until()});
}

bool BlockClient::take_event(BlockEvent& into) {
  if (impl_->events.empty()) return false;
  into = std::move(impl_->events.front());
  impl_->events.pop();
  return true;
}

void BlockClient::close(Fabric& fabric, Nanos now) {
  Impl& impl = *impl_;
  if (std::exchange(impl.close_begun, true)) return;
  for (Impl::Device& device : std::span(impl.devices_by_slot).first(impl.slots))
    impl.abandon(device, {Errc::session_closed, wire::linux_errno::kEshutdown});
  if (impl.devices.mapped_count() == 0 || !impl.session.link_up()) return impl.close_session(fabric, now);
  impl.grace_ends = now + kUnmapGrace;
  for (unsigned slot = 0; slot < impl.slots; ++slot)
    impl.feed(fabric, now, rnbd::UnmapRequested{impl.devices_by_slot[slot].handle});
}

bool BlockClient::closed() const noexcept {
  const bool gone = impl_->session_closing && (!impl_->opened || impl_->session.closed());
  return gone && impl_->in_flight == 0;
}

Client& BlockClient::session() noexcept {
  return impl_->session;
}
const Client& BlockClient::session() const noexcept {
  return impl_->session;
}
rnbd::DeviceState BlockClient::state(rnbd::DeviceHandle device) const noexcept {
  return impl_->devices.state(device);
}
bool BlockClient::refused(rnbd::DeviceHandle device) const noexcept {
  return impl_->devices.refused(device);
}
const rnbd::Geometry* BlockClient::geometry(rnbd::DeviceHandle device) const noexcept {
  return impl_->devices.geometry(device);
}
bool BlockClient::writable(rnbd::DeviceHandle device) const noexcept {
  return impl_->devices.geometry(device) != nullptr && impl_->device_of(device).writable;
}
unsigned BlockClient::mapped_count() const noexcept {
  return impl_->devices.mapped_count();
}
unsigned BlockClient::messages_in_flight() const noexcept {
  return impl_->devices.messages_in_flight();
}
std::uint32_t BlockClient::under_way() const noexcept {
  return impl_->under_way;
}

template <class Input>
void BlockClient::Impl::feed(Fabric& fabric, Nanos now, const Input& input) {
  step(now, input);
  perform(fabric, now);
}

void BlockClient::Impl::perform(Fabric& fabric, Nanos now) {
  for (std::size_t told = 0;; ++told) {
    for (const rnbd::ClientAction& action : actions) {
      if (const auto* message = std::get_if<rnbd::SendMessage>(&action)) {
        if (!send(fabric, now, *message)) unsent.push_back(message->token);
      } else if (const auto* change = std::get_if<rnbd::DeviceChanged>(&action)) {
        note_change(now, *change);
        tell(*change);
      } else if (const auto* replaced = std::get_if<rnbd::CacheReplaced>(&action)) {
        tell(*replaced);
      }
    }
    if (told == unsent.size()) break;
    step(now, rnbd::MessageDone{unsent[told], false, 0, {}});
  }
  unsent.clear();
  if (devices.retry_wanted() && retry_at == kNever) retry_at = now + kRetryPause;
  if (devices.reopen_wanted() && reopen_at == kNever) reopen_at = now + seconds(devices.reopen_pause_s());
  if (close_begun && devices.mapped_count() == 0) close_session(fabric, now);
}

// Returns false if the session did not accept the message.
bool BlockClient::Impl::send(Fabric& fabric, Nanos now, const rnbd::SendMessage& action) {
  const auto free =
      std::find_if(messages.begin(), messages.end(), [](const auto& m) { return m.token == 0; });
  RTRS_ASSERT(free != messages.end());
  IoRequest request;
  request.direction = action.direction;
  request.service = true;
  request.user_header = action.header.span();
  request.data = std::span(free->response).first(action.response_length);
  request.user_data = kMessage | static_cast<std::uint64_t>(free - messages.begin());
  if (session.submit(fabric, now, request) != Errc::ok) return false;
  free->token = action.token;
  free->length = action.response_length;
  return true;
}

void BlockClient::Impl::on_news(Fabric& fabric, Nanos now, const PathEvent& news) {
  if (news.kind == PathEvent::Kind::link_up) feed(fabric, now, rnbd::LinkUp{session.peer_extends()});
  if (news.kind == PathEvent::Kind::link_down) {
    feed(fabric, now, rnbd::LinkDown{});
    if (close_begun) close_session(fabric, now);
  }
  tell(news);
}

void BlockClient::Impl::on_done(Fabric& fabric, Nanos now, const IoCompletion& done) {
  if ((done.user_data & kMessage) != 0)
    return on_message_done(fabric, now, static_cast<std::size_t>(done.user_data & ~kMessage), done);
  --in_flight;
  on_piece_done(fabric, now, static_cast<std::uint32_t>(done.user_data), done.result, done.peer_errno);
}

void BlockClient::Impl::on_message_done(Fabric& fabric, Nanos now, std::size_t index,
                                        const IoCompletion& done) {
  Message& message = messages[index];
  rnbd::MessageDone input;
  input.token = std::exchange(message.token, 0);
  input.delivered = was_answered(done.result);
  input.peer_errno = done.peer_errno;
  input.response = std::span(message.response).first(message.length);
  feed(fabric, now, input);
}

void BlockClient::Impl::run_timers(Fabric& fabric, Nanos now) {
  if (retry_at <= now) {
    retry_at = kNever;
    feed(fabric, now, rnbd::RetryDue{});
  }
  if (reopen_at <= now) {
    reopen_at = kNever;
    feed(fabric, now, rnbd::ReopenDue{});
  }
  if (grace_ends <= now) close_session(fabric, now);
}

void BlockClient::Impl::close_session(Fabric& fabric, Nanos now) {
  if (std::exchange(session_closing, true)) return;
  grace_ends = kNever;
  if (opened) session.close(fabric, now);
}

void BlockClient::Impl::tell(BlockEvent&& event) {
  if (events.full()) events.pop();
  events.push() = std::move(event);
}

}  // namespace rtrs
