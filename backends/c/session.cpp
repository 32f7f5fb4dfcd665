#include "backends/c/session.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/system/clock.hpp"
#include "backends/system/identities.hpp"

using namespace rtrs;

namespace {

Nanos after_ms(int timeout_ms) {
  return timeout_ms < 0 ? kNever : later(steady_now(), milliseconds(static_cast<std::uint64_t>(timeout_ms)));
}

wire::rnbd::AccessMode mode_of(unsigned flags) {
  if ((flags & URTRS_READ_ONLY) != 0) return wire::rnbd::AccessMode::read_only;
  return (flags & URTRS_MIGRATION) != 0 ? wire::rnbd::AccessMode::migration
                                        : wire::rnbd::AccessMode::read_write;
}

}  // namespace

urtrs_session::~urtrs_session() {
  client.reset();
  fabric.reset();
  // Nothing uses their memory any more.
  in_callback = true;
  running_.swap(due_);
  for (const Due& due : running_) due.callback(due.user, due.error);
  for (const auto& device : devices)
    if (device->opening && device->opened != nullptr) device->opened(device->user, -ECANCELED);
  for (const Request& request : requests)
    if (request.busy && request.callback != nullptr) request.callback(request.user, -ECANCELED);
}

int urtrs_session::fail(int error, std::string sentence) {
  message = std::move(sentence);
  return error;
}

std::string urtrs_session::describe_paths() const {
  std::string text;
  if (!client) return text;
  const auto paths = client->session().paths();
  for (unsigned i = 0; i < paths.size(); ++i) {
    if (paths[i].state == PathState::absent || paths[i].state == PathState::connected) continue;
    text += text.empty() ? "" : ", ";
    text += client->session().address(i).destination + ": " + to_string(paths[i].reason);
  }
  return text;
}

int urtrs_session::open() {
  if (client) return fail(-EBUSY, "the session was opened before");
  auto opened = c::open_fabric(settings);
  if (!opened) return fail(-to_linux_errno(opened.error().error), opened.error().sentence);
  BlockClientOptions fitted = options;
  fitted.session.protocol = settings.protocol;
  draw_identities(fitted.session);
  fitted.session = clamp_to(fitted.session, (*opened)->capabilities());
  client.emplace(fitted, nullptr);
  const Errc begun = client->open(**opened, steady_now());
  if (begun != Errc::ok) {
    client.reset();
    return fail(-to_linux_errno(begun), options.session.paths.empty()
                                            ? "the session has no path"
                                            : "a session cannot have this name, these paths or these times");
  }
  fabric = std::move(*opened);
  return 0;
}

int urtrs_session::add_path(const PathAddress& address) {
  if (!client) {
    if (options.session.paths.size() >= kMaxPaths) return fail(-ENOSPC, "there are too many paths");
    options.session.paths.push_back(address);
    return 0;
  }
  const Errc added = client->session().add_path(*fabric, steady_now(), address);
  if (added != Errc::ok) return fail(-to_linux_errno(added), to_string(added));
  return 0;
}

int urtrs_session::map(std::string_view device, unsigned flags, urtrs_callback callback, void* user,
                       urtrs_device*& into) {
  if (!client) return fail(-ENOTCONN, "the session is not open");
  auto made = std::make_unique<urtrs_device>();
  devices.reserve(devices.size() + 1);
  make_room(requests.size());
  made->session = this;
  made->name = device;
  made->opened = callback;
  made->user = user;
  const auto outcome = client->map(*fabric, steady_now(), device, mode_of(flags));
  if (outcome.error != 0) return fail(-outcome.error, made->name + ": " + urtrs_strerror(-outcome.error));
  made->handle = outcome.device;
  into = made.get();
  devices.push_back(std::move(made));
  return 0;
}

void urtrs_session::forget(urtrs_device& device) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&device](const auto& one) { return one.get() == &device; });
  if (device.opening && device.opened != nullptr) due_.push_back({device.opened, device.user, -ECANCELED});
  devices.erase(found);
  run_callbacks();
}

int urtrs_session::submit(const urtrs_device& device, BlockRequest request, urtrs_callback callback,
                          void* user, Memory memory, std::uint32_t* into) {
  if (!client) return -ESHUTDOWN;
  if (free_requests.empty()) {
    free_requests.reserve(requests.size() + 1);
    make_room(requests.size() + 1);
    requests.emplace_back();
    free_requests.push_back(static_cast<std::uint32_t>(requests.size() - 1));
  }
  const std::uint32_t slot = free_requests.back();
  request.user_data = slot;
  const Errc taken = client->submit(*fabric, steady_now(), device.handle, request);
  if (taken != Errc::ok) return -to_linux_errno(taken);
  free_requests.pop_back();
  requests[slot] = {callback, user, std::move(memory), true};
  ++under_way;
  if (into != nullptr) *into = slot;
  return 0;
}

void urtrs_session::finish(std::uint32_t slot, int error) {
  Request& request = requests[slot];
  if (request.callback != nullptr) due_.push_back({request.callback, request.user, error});
  request.memory.reset();
  request.busy = false;
  free_requests.push_back(slot);
  --under_way;
}

void urtrs_session::make_room(std::size_t for_requests) {
  due_.reserve(for_requests + rnbd::kMaxClientDevices);
  running_.reserve(for_requests + rnbd::kMaxClientDevices);
}

int urtrs_session::poll() noexcept {
  if (!client) return 0;
  try {
    take_turn();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  return run_callbacks();
}

void urtrs_session::take_turn() {
  const Nanos now = steady_now();
  std::size_t count = 0;
  do {
    count = client->poll(*fabric, now, completions_);
    for (std::size_t i = 0; i < count; ++i)
      finish(static_cast<std::uint32_t>(completions_[i].user_data), -completions_[i].error);
  } while (count == completions_.size());
  take_events();
}

int urtrs_session::run_callbacks() noexcept {
  in_callback = true;
  running_.swap(due_);
  int count = static_cast<int>(running_.size());
  for (const Due& due : running_) due.callback(due.user, due.error);
  running_.clear();
  for (std::uint32_t path = 0; path < changed_paths_.size(); ++path) {
    if (!std::exchange(changed_paths_[path], false) || on_path == nullptr) continue;
    on_path(on_path_user, path);
    ++count;
  }
  in_callback = false;
  return count;
}

void urtrs_session::take_events() {
  bool paths_changed = false;
  while (client->take_event(event_)) {
    if (const auto* change = std::get_if<rnbd::DeviceChanged>(&event_)) on_device_changed(*change);
    const auto* path = std::get_if<PathEvent>(&event_);
    if (path == nullptr || path->kind != PathEvent::Kind::path) continue;
    paths_changed = true;
    changed_paths_[path->path.path] = true;
  }
  if (paths_changed && !close_begun) give_up_opens_when_hopeless();
}

void urtrs_session::on_device_changed(const rnbd::DeviceChanged& change) {
  for (const auto& device : devices) {
    if (device->handle != change.device) continue;
    if (change.state == rnbd::DeviceState::open) {
      device->geometry = change.geometry;
      device->refused = 0;
    } else if (change.peer_errno != 0) {
      device->refused = -change.peer_errno;
    }
    const bool ended = change.state == rnbd::DeviceState::unmapped;
    if (!device->opening || (!ended && change.state != rnbd::DeviceState::open)) continue;
    device->opening = false;
    const int error = !ended ? 0 : change.peer_errno != 0 ? -change.peer_errno : -ESHUTDOWN;
    if (device->opened != nullptr) due_.push_back({device->opened, device->user, error});
  }
}

void urtrs_session::give_up_opens_when_hopeless() {
  const auto paths = client->session().paths();
  const bool hopeless = std::all_of(paths.begin(), paths.end(), [](const PathStatus& path) {
    return path.state == PathState::closed || path.state == PathState::absent;
  });
  for (const auto& device : devices) {
    if (!hopeless || !device->opening) continue;
    device->opening = false;
    if (device->opened != nullptr) due_.push_back({device->opened, device->user, -EIO});
  }
}

Nanos urtrs_session::sleep_until() noexcept {
  if (!client || client->closed()) return kNever;
  const Nanos due = client->next_deadline();
  return due <= steady_now() || !fabric->try_wait() ? 0 : due;
}

int urtrs_session::sleep(Nanos until) noexcept {
  const Nanos due = std::min(sleep_until(), until);
  const Nanos now = steady_now();
  if (due <= now) return 0;
  pollfd news{fabric ? fabric->wait_fd() : -1, POLLIN, 0};
  timespec time{};
  time.tv_sec = static_cast<time_t>((due - now) / seconds(1));
  time.tv_nsec = static_cast<long>((due - now) % seconds(1));
  return ::ppoll(&news, 1, due == kNever ? nullptr : &time, nullptr) < 0 && errno == EINTR ? -EINTR : 0;
}

int urtrs_session::wait(int timeout_ms, const std::function<bool()>& done) {
  const Nanos end = after_ms(timeout_ms);
  for (;;) {
    poll();
    if (done()) return 0;
    if (steady_now() >= end) return -ETIMEDOUT;
    sleep(end);
  }
}

int urtrs_session::close(int timeout_ms) {
  if (!client) return 0;
  if (!std::exchange(close_begun, true)) client->close(*fabric, steady_now());
  // closed() also counts completions that were not polled; all are after poll().
  const int waited = wait(timeout_ms, [this] { return client->closed() && client->under_way() == 0; });
  if (waited != 0) return fail(waited, "the session has not ended yet");
  return 0;
}
