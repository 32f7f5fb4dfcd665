#include "backends/bindings/asio/remote_device.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "backends/bindings/asio/client_options.hpp"
#include "backends/bindings/asio/error.hpp"
#include "backends/bindings/asio/path_syntax.hpp"

namespace rtrs::asio {
namespace {

BlockClientOptions make_options(const RemoteDeviceOptions& given, const Capabilities& fabric) {
  BlockClientOptions options;
  options.session = make_client_options(given.session_name, given.paths, given.protocol, fabric);
  return options;
}

// Returns true if two paths are equal. A server accepts one path per address pair and rejects the second one
// on every attempt.
bool same_twice(const std::vector<PathAddress>& paths) {
  for (auto one = paths.begin(); one != paths.end(); ++one)
    if (std::any_of(paths.begin(), one, [&](const PathAddress& other) { return same_path(*one, other); }))
      return true;
  return false;
}

// Errors that have an errno, set by this side or by the server, become codes of the generic category.
boost::system::error_code error_of(const BlockCompletion& done) {
  switch (done.result) {
    case Errc::ok:
      return {};
    case Errc::peer_error:
    case Errc::invalid:
    case Errc::cache_lost:
      return of_errno(done.error);
    default:
      return to_error_code(done.result);
  }
}

}  // namespace

RemoteDevice::RemoteDevice(boost::asio::io_context& context, std::unique_ptr<Fabric> fabric,
                           RemoteDeviceOptions options)
    : context_(context),
      pending_(boost::asio::use_service<PendingOperations>(context)),
      fabric_(std::move(fabric)),
      options_(std::move(options)),
      client_(make_options(options_, fabric_->capabilities()), &recorder_),
      pump_(context, *fabric_, options_.wait,
            {[this](Nanos now) { return this->step(now); }, [this] { return client_.next_deadline(); },
             [this] { return mapping_.empty() && closing_.empty() && session().inflight() == 0; }}) {}

RemoteDevice::~RemoteDevice() {
  *alive_ = false;
}

int RemoteDevice::open_trace(const std::string& file, const trace::Origin& origin,
                             const trace::FileOptions& options) {
  return recorder_.open_file(file.c_str(), origin, options);
}

int RemoteDevice::dump_trace(const std::string& file, const trace::Origin& origin) const {
  return recorder_.dump_ring(file.c_str(), origin);
}

void RemoteDevice::begin_map() {
  if (close_begun_ || (map_begun_ && !map_pending_))
    return mapping_.complete_later(to_error_code(close_begun_ ? Errc::session_closed : Errc::invalid));
  if (map_begun_) return settle_later();  // an earlier call was cancelled; its map continues
  map_begun_ = map_pending_ = true;
  const Nanos now = steady_now();
  const Errc opened = same_twice(options_.paths) ? Errc::invalid : client_.open(*fabric_, now);
  if (opened != Errc::ok) {
    map_result_ = to_error_code(opened);
    return settle_later();
  }
  const rnbd::MapOutcome outcome = client_.map(*fabric_, now, options_.device, options_.access_mode);
  if (outcome.error != 0) {
    map_result_ = of_errno(outcome.error);
    settle_later();
  }
  handle_ = outcome.device;
  pump_.start();
}

void RemoteDevice::begin(std::uint32_t slot, BlockRequest request) {
  request.user_data = slot;
  const bool open = map_begun_ || close_begun_;
  const Errc taken = open ? client_.submit(*fabric_, steady_now(), handle_, request) : Errc::not_open;
  if (taken == Errc::ok) return pump_.step_if_due();
  finish(slot, to_error_code(taken));
  settle_later();
}

void RemoteDevice::finish(std::uint32_t slot, const boost::system::error_code& error) {
  if (results_.size() <= slot) results_.resize(slot + 1U);
  results_[slot].error = error;
  finished_.push_back(results_, slot);
}

void RemoteDevice::begin_close() {
  if (std::exchange(close_begun_, true)) return settle_later();  // an earlier call was cancelled
  client_.close(*fabric_, steady_now());
  if (map_begun_) pump_.step_soon();
  settle_later();
}

bool RemoteDevice::step(Nanos now) {
  const std::size_t count = client_.poll(*fabric_, now, completions_);
  for (const BlockCompletion& one : std::span(completions_).first(count))
    finish(static_cast<std::uint32_t>(one.user_data), error_of(one));
  return settle() && count != 0;
}

void RemoteDevice::take_events() {
  while (client_.take_event(event_)) {
    if (const auto* path = std::get_if<PathEvent>(&event_)) on_path_event(*path);
    if (const auto* change = std::get_if<rnbd::DeviceChanged>(&event_)) on_device_changed(*change);
    if (const auto* replaced = std::get_if<rnbd::CacheReplaced>(&event_))
      news_.push_back(DeviceNews{state(), 0, geometry_, true, replaced->unflushed});
  }
}

void RemoteDevice::on_path_event(const PathEvent& news) {
  if (news.kind == PathEvent::Kind::path && !close_begun_ && map_pending_ && hopeless())
    map_result_ = to_error_code(Errc::no_path);
  news_.push_back(news);
}

bool RemoteDevice::hopeless() const {
  return std::all_of(paths().begin(), paths().end(), [](const PathStatus& path) {
    return path.state == PathState::closed || path.state == PathState::absent;
  });
}

void RemoteDevice::on_device_changed(const rnbd::DeviceChanged& change) {
  const bool refused = change.state == rnbd::DeviceState::closed && change.peer_errno != 0;
  // A refusal with the same errno as the previous one is not reported.
  if (!refused || change.peer_errno != refused_errno_)
    news_.push_back(DeviceNews{change.state, change.peer_errno, change.geometry, false, 0});
  if (refused) refused_errno_ = change.peer_errno;
  if (change.state == rnbd::DeviceState::open) {
    refused_errno_ = 0;
    geometry_ = change.geometry;
    if (map_pending_) map_result_ = boost::system::error_code{};
  }
  if (change.state == rnbd::DeviceState::unmapped && map_pending_)
    map_result_ = change.peer_errno != 0 ? of_errno(change.peer_errno) : to_error_code(Errc::session_closed);
}

void RemoteDevice::settle_later() {
  if (settle_posted_) return;
  settle_posted_ = true;
  boost::asio::post(context_, [this, alive = alive_] {
    if (!*alive) return;
    settle_posted_ = false;
    settle();
  });
}

// Calls the user's callbacks and handlers. Only this function calls them, and every event handler calls this
// function last. Returns false if user code destroyed this object.
bool RemoteDevice::settle() {
  take_events();
  const auto alive = alive_;
  while (!news_.empty()) {
    const auto news = std::move(news_.front());
    news_.pop_front();
    const auto* path = std::get_if<PathEvent>(&news);
    if (path != nullptr && options_.on_path) options_.on_path(*path);
    if (path == nullptr && options_.on_device) options_.on_device(std::get<DeviceNews>(news));
    if (!*alive) return false;
  }
  while (!finished_.empty()) {
    const std::uint32_t slot = finished_.pop_front(results_);
    requests_.complete(slot, results_[slot].error);
    if (!*alive) return false;
  }
  if (close_begun_ && !closed_ && client_.closed()) {
    closed_ = true;
    recorder_.close_file();
    if (map_pending_) map_result_ = to_error_code(Errc::session_closed);
  }
  if (map_result_ && !mapping_.empty()) {
    map_pending_ = false;
    mapping_.complete(*std::exchange(map_result_, std::nullopt));
    if (!*alive) return false;
  }
  if (closed_ && client_.under_way() == 0 && finished_.empty() && !closing_.empty()) closing_.complete({});
  return *alive;
}

bool RemoteDevice::resize(std::uint64_t sectors) {
  const bool resized = client_.resize(*fabric_, steady_now(), handle_, sectors);
  take_events();
  settle_later();
  return resized;
}

Errc RemoteDevice::add_path(const PathAddress& address) {
  for (unsigned path = 0; path < paths().size(); ++path)
    if (paths()[path].state != PathState::absent && same_path(session().address(path), address))
      return Errc::path_exists;
  const Errc result = client_.session().add_path(*fabric_, steady_now(), address);
  pump_.step_soon();
  return result;
}
Errc RemoteDevice::reconnect_path(unsigned path) {
  const Errc result = client_.session().reconnect_path(*fabric_, steady_now(), path);
  pump_.step_soon();
  return result;
}
Errc RemoteDevice::disconnect_path(unsigned path) {
  const Errc result = client_.session().disconnect_path(*fabric_, steady_now(), path);
  pump_.step_soon();
  return result;
}
Errc RemoteDevice::remove_path(unsigned path) {
  const Errc result = client_.session().remove_path(*fabric_, steady_now(), path);
  pump_.step_soon();
  return result;
}

}  // namespace rtrs::asio
