#include "backends/bindings/c/session.hpp"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "backends/platform/address/path_syntax.hpp"
#include "backends/platform/system/clock.hpp"
#include "backends/platform/system/identities.hpp"

using namespace rtrs;

namespace {

// Counts forks in the child, so that a session can detect that it is in another process.
std::atomic<unsigned> forks_of_process{0};

unsigned count_forks() {
  static const int watched = ::pthread_atfork(nullptr, nullptr, [] { ++forks_of_process; });
  if (watched != 0) throw std::bad_alloc();
  return forks_of_process;
}

Nanos after_ms(int timeout_ms) {
  return timeout_ms < 0 ? kNever
                        : later(platform::steady_now(), milliseconds(static_cast<std::uint64_t>(timeout_ms)));
}

wire::rnbd::AccessMode mode_of(unsigned flags) {
  if ((flags & URTRS_READ_ONLY) != 0) return wire::rnbd::AccessMode::read_only;
  return (flags & URTRS_MIGRATION) != 0 ? wire::rnbd::AccessMode::migration
                                        : wire::rnbd::AccessMode::read_write;
}

// Maximum time to open a device: the time that a request waits for a path, or the connect timeout if requests
// never wait.
Nanos longest_open(const ClientConfig& protocol) {
  return protocol.queue_timeout == 0 ? protocol.connect_timeout : protocol.queue_timeout;
}

bool is_gid(const std::string& address) {
  return address.compare(0, 4, "gid:") == 0;
}

std::string words_of(const PathStatus& path) {
  if (path.reason == Reason::none) return to_string(path.state);
  if (path.last_cause == Reason::none) return to_string(path.reason);
  return std::string(to_string(path.reason)) + ", the last with " + to_string(path.last_cause);
}

}  // namespace

urtrs_session::urtrs_session() : forks(count_forks()) {}

urtrs_session::~urtrs_session() {
  client.reset();
  fabric.reset();
  // The fabric is destroyed, so it no longer uses the memory of pending requests: their callbacks may run.
  in_callback = close_begun = true;
  call_due();
  for (const auto& device : devices)
    if (device->opening && device->opened != nullptr) device->opened(device->user, -ECANCELED);
  for (const Request& request : requests)
    if (request.busy && request.callback != nullptr) request.callback(request.user, -ECANCELED);
}

int urtrs_session::fail(int error, std::string sentence) {
  message = std::move(sentence);
  return error;
}

bool urtrs_session::is_of_this_process() const noexcept {
  return forks == forks_of_process;
}

int urtrs_session::refuse_wait() {
  return in_callback ? fail(-EDEADLK, "a callback may not wait, close or free") : 0;
}

bool urtrs_session::has_path() const noexcept {
  return client && client->session().link_up();
}

std::string urtrs_session::why_no_path() const {
  std::string text;
  if (!client || close_begun) return text;
  const auto paths = client->session().paths();
  for (unsigned i = 0; i < paths.size(); ++i) {
    if (paths[i].state == PathState::absent) continue;
    text += text.empty() ? " (" : ", ";
    text += net::to_text(client->session().address(i)) + ": " + words_of(paths[i]);
  }
  return text.empty() ? text : text + ")";
}

int urtrs_session::fail_with_words(int error, const std::string& what) {
  const bool wants_path = (error == -EIO || error == -ETIMEDOUT) && !has_path();
  const char* const words = error == -ESHUTDOWN ? "the session is closed" : urtrs_strerror(error);
  return fail(error, what + ": " + words + (wants_path ? why_no_path() : ""));
}

int urtrs_session::open() {
  if (client || close_begun) return fail(-EBUSY, "the session was opened before");
  auto opened = c::open_fabric(settings);
  if (!opened) return fail(-opened.error().error, opened.error().sentence);
  for (const PathAddress& path : options.session.paths)
    if (settings.fabric.fabric != "verbs" && (is_gid(path.source) || is_gid(path.destination)))
      return fail(-EINVAL, net::to_text(path) + ": gid: is an address of the fabric verbs");
  BlockClientOptions fitted = options;
  fitted.session.protocol = settings.protocol;
  platform::draw_identities(fitted.session);
  fitted.session = clamp_to(fitted.session, (*opened)->capabilities());
  client.emplace(fitted, nullptr);
  Errc begun = Errc::no_memory;
  try {
    begun = client->open(**opened, platform::steady_now());
  } catch (...) {
    client.reset();  // `client` refers to `opened`, which is destroyed next
    throw;
  }
  if (begun != Errc::ok) {
    client.reset();
    return fail(-to_linux_errno(begun), options.session.paths.empty()
                                            ? "the session has no path"
                                            : "a session cannot have this name, these paths or these times");
  }
  fabric = std::move(*opened);
  return 0;
}

int urtrs_session::add_path(const std::string& source, const std::string& destination, std::uint16_t port) {
  for (const std::string* one : {&source, &destination})
    if (one->find_first_of("@,") != std::string::npos)
      return fail(-EINVAL, "path '" + *one + "': source and destination are given apart");
  auto address = net::parse_path(source.empty() ? destination : source + "@" + destination, port);
  if (!address) return fail(-EINVAL, address.error());
  if (client && settings.fabric.fabric != "verbs" &&
      (is_gid(address->source) || is_gid(address->destination)))
    return fail(-EINVAL, net::to_text(*address) + ": gid: is an address of the fabric verbs");
  // The server accepts one path per address pair and rejects the second one on every attempt, so a duplicate
  // is rejected here.
  const auto& given = options.session.paths;
  if (std::any_of(given.begin(), given.end(),
                  [&](const PathAddress& one) { return net::same_path(one, *address); }))
    return fail(-EEXIST, "the session already has the path " + net::to_text(*address));
  if (given.size() >= kMaxPaths)
    return fail(-ENOSPC, "a session has " + std::to_string(kMaxPaths) + " paths at most");
  options.session.paths.reserve(given.size() + 1);
  if (client) {
    const Errc added = client->session().add_path(*fabric, platform::steady_now(), *address);
    if (added != Errc::ok)
      return fail(-to_linux_errno(added), "the path cannot be added: " + std::string(to_string(added)));
  }
  options.session.paths.push_back(std::move(*address));
  return 0;
}

int urtrs_session::map(std::string_view device, unsigned flags, urtrs_callback callback, void* user,
                       urtrs_device*& into) {
  if (!client) return fail(-ENOTCONN, "the session is not open");
  const Nanos now = platform::steady_now();
  auto made = std::make_unique<urtrs_device>();
  devices.reserve(devices.size() + 1);
  make_room(requests.size());
  made->session = this;
  made->name = device;
  made->opened = callback;
  made->user = user;
  made->give_up_at = later(now, longest_open(settings.protocol));
  const auto outcome = client->map(*fabric, now, device, mode_of(flags));
  if (outcome.error != 0) return fail_with_words(-outcome.error, made->name);
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
  const Errc taken = client->submit(*fabric, platform::steady_now(), device.handle, request);
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
  const Nanos now = platform::steady_now();
  std::size_t count = 0;
  do {
    count = client->poll(*fabric, now, completions_);
    for (std::size_t i = 0; i < count; ++i)
      finish(static_cast<std::uint32_t>(completions_[i].user_data), -completions_[i].error);
  } while (count == completions_.size());
  take_events();
  give_up_opens(now);
}

int urtrs_session::call_due() noexcept {
  running_.swap(due_);
  const std::size_t count = running_.size();
  for (std::size_t i = 0; i < count; ++i) {
    // Copied, because a callback that starts requests may reallocate the vector.
    const Due due = running_[i];
    due.callback(due.user, due.error);
  }
  running_.clear();
  return static_cast<int>(count);
}

int urtrs_session::run_callbacks() noexcept {
  in_callback = true;
  int count = call_due();
  for (std::uint32_t path = 0; path < changed_paths_.size(); ++path) {
    if (!std::exchange(changed_paths_[path], false) || on_path == nullptr) continue;
    on_path(on_path_user, path);
    ++count;
  }
  in_callback = false;
  return count;
}

void urtrs_session::take_events() {
  while (client->take_event(event_)) {
    if (const auto* change = std::get_if<rnbd::DeviceChanged>(&event_)) on_device_changed(*change);
    const auto* path = std::get_if<PathEvent>(&event_);
    if (path == nullptr || path->kind != PathEvent::Kind::path) continue;
    changed_paths_[path->path.path] = true;
  }
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
    end_open(*device, !ended ? 0 : change.peer_errno != 0 ? -change.peer_errno : -ESHUTDOWN);
  }
}

void urtrs_session::end_open(urtrs_device& device, int error) {
  device.opening = false;
  if (device.opened != nullptr) due_.push_back({device.opened, device.user, error});
}

// True if no path will be retried.
bool urtrs_session::is_hopeless() const noexcept {
  const auto paths = client->session().paths();
  return !close_begun && std::all_of(paths.begin(), paths.end(), [](const PathStatus& path) {
    return path.state == PathState::closed || path.state == PathState::absent;
  });
}

void urtrs_session::give_up_opens(Nanos now) {
  for (const auto& device : devices) {
    if (!device->opening) continue;
    if (is_hopeless())
      end_open(*device, -EIO);
    else if (device->give_up_at <= now)
      end_open(*device, -ETIMEDOUT);
  }
}

Nanos urtrs_session::sleep_until() noexcept {
  if (!client || client->closed()) return kNever;
  Nanos due = client->next_deadline();
  for (const auto& device : devices)
    if (device->opening) due = std::min(due, device->give_up_at);
  return due <= platform::steady_now() || !fabric->try_wait() ? 0 : due;
}

int urtrs_session::sleep(Nanos until) noexcept {
  const Nanos due = std::min(sleep_until(), until);
  const Nanos now = platform::steady_now();
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
    if (platform::steady_now() >= end) return -ETIMEDOUT;
    sleep(end);
  }
}

int urtrs_session::close(int timeout_ms) {
  if (!client) return 0;
  if (!std::exchange(close_begun, true)) client->close(*fabric, platform::steady_now());
  // Waits for under_way() == 0 too, because closed() is true before the last completions are polled.
  const int waited = wait(timeout_ms, [this] { return is_over(); });
  if (waited != 0) return fail(waited, "the session has not ended yet");
  return 0;
}
