#include "tools/nbdkit/block_session.hpp"

#include <algorithm>
#include <utility>

#include "backends/bindings/asio/client_options.hpp"

namespace rtrs::nbdkit {
namespace {

BlockClientOptions client_options(const BlockSessionOptions& given, const Capabilities& fabric) {
  BlockClientOptions options;
  options.session = asio::make_client_options(given.session_name, given.paths, given.protocol, fabric);
  return options;
}

}  // namespace

BlockSession::BlockSession(std::unique_ptr<Fabric> fabric, const BlockSessionOptions& options,
                           Listener& listener)
    : fabric_(std::move(fabric)),
      listener_(listener),
      client_(client_options(options, fabric_->capabilities()), &recorder_),
      poller_(*this) {}

BlockSession::~BlockSession() = default;

Errc BlockSession::open() {
  opened_ = true;
  const Errc opened = client_.open(*fabric_, asio::steady_now());
  take_events();
  poller_.nudge();
  return opened;
}

rnbd::MapOutcome BlockSession::map(std::string_view name, wire::rnbd::AccessMode mode) {
  const rnbd::MapOutcome outcome = client_.map(*fabric_, asio::steady_now(), name, mode);
  take_events();
  poller_.nudge();
  return outcome;
}

void BlockSession::unmap(rnbd::DeviceHandle device) {
  client_.unmap(*fabric_, asio::steady_now(), device);
  take_events();
  poller_.nudge();
}

void BlockSession::remap(rnbd::DeviceHandle device) {
  client_.remap(*fabric_, asio::steady_now(), device);
  take_events();
  poller_.nudge();
}

bool BlockSession::resize(rnbd::DeviceHandle device, std::uint64_t sectors) {
  const bool resized = client_.resize(*fabric_, asio::steady_now(), device, sectors);
  take_events();
  poller_.nudge();
  return resized;
}

template <class Act>
auto BlockSession::steer(Act act) {
  const auto outcome = act(client_.session(), asio::steady_now());
  take_events();
  poller_.nudge();
  return outcome;
}

Errc BlockSession::add_path(const PathAddress& address) {
  return steer([&](Client& session, Nanos now) { return session.add_path(*fabric_, now, address); });
}
Errc BlockSession::remove_path(unsigned path) {
  return steer([&](Client& session, Nanos now) { return session.remove_path(*fabric_, now, path); });
}
Errc BlockSession::disconnect_path(unsigned path) {
  return steer([&](Client& session, Nanos now) { return session.disconnect_path(*fabric_, now, path); });
}
Errc BlockSession::reconnect_path(unsigned path) {
  return steer([&](Client& session, Nanos now) { return session.reconnect_path(*fabric_, now, path); });
}
unsigned BlockSession::recover() {
  return steer([&](Client& session, Nanos now) { return session.recover(*fabric_, now); });
}
void BlockSession::set_policy(MultipathPolicy policy) {
  steer([&](Client& session, Nanos now) {
    session.set_policy(*fabric_, now, policy);
    return 0;
  });
}

void BlockSession::set_max_reconnect_attempts(std::int32_t most) {
  steer([&](Client& session, Nanos now) {
    session.set_max_reconnect_attempts(*fabric_, now, most);
    return 0;
  });
}

void BlockSession::close() {
  client_.close(*fabric_, asio::steady_now());
  take_events();
  poller_.nudge();
}

bool BlockSession::hopeless() const noexcept {
  return std::ranges::all_of(session().paths(), [](const PathStatus& path) {
    return path.state == PathState::closed || path.state == PathState::absent;
  });
}

int BlockSession::io(rnbd::DeviceHandle device, BlockRequest request) {
  Io waiting;
  request.user_data = reinterpret_cast<std::uintptr_t>(&waiting);
  Lock lock(poller_);
  waiting.started = asio::steady_now();
  waiting.begun = listener_.on_io_begin();
  const Errc taken = client_.submit(*fabric_, waiting.started, device, request);
  if (taken != Errc::ok) {
    listener_.on_io_end(waiting.begun, 0, true);
    return to_linux_errno(taken);
  }
  ++under_way_;
  poller_.wait(lock, waiting);
  return waiting.error;
}

void BlockSession::step(Nanos now) {
  if (!opened_) return;
  const std::size_t count = client_.poll(*fabric_, now, completions_);
  for (const BlockCompletion& one : std::span(completions_).first(count)) {
    Io& io = *reinterpret_cast<Io*>(static_cast<std::uintptr_t>(one.user_data));
    io.error = one.error;
    --under_way_;
    listener_.on_io_end(io.begun, now - io.started, one.error != 0);
    poller_.finish(io);
  }
  take_events();
  if (client_.closed()) poller_.announce();
}

void BlockSession::take_events() {
  while (client_.take_event(event_)) {
    listener_.on_event(event_);
    poller_.announce();
  }
}

}  // namespace rtrs::nbdkit
