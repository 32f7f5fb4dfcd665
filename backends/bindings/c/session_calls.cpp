// Session functions of urtrs.h.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/bindings/c/session.hpp"
#include "backends/platform/system/clock.hpp"
#include "core/wire/messages.hpp"

using namespace rtrs;

namespace {

constexpr std::uint16_t kDefaultPort = 1234;

}  // namespace

extern "C" {

const char* urtrs_version(void) {
  return URTRS_VERSION;
}

const char* urtrs_strerror(int error) {
  if (error == 0) return "success";
  // strerrordesc_np() (GNU) returns constant texts, unlike strerror().
  const char* text = ::strerrordesc_np(error < 0 ? -error : error);
  return text != nullptr ? text : "unknown error";
}

int urtrs_session_new(const char* name, urtrs_session** session) {
  if (session == nullptr || name == nullptr || !wire::valid_session_name(name)) return -EINVAL;
  return c::guarded([&] {
    auto made = std::make_unique<urtrs_session>();
    made->options.session.session_name = name;
    *session = made.release();
    return 0;
  });
}

int urtrs_session_set(urtrs_session* session, const char* setting, const char* value) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] {
    if (setting == nullptr || value == nullptr)
      return session->fail(-EINVAL, "no setting or no value is given");
    if (session->client) return session->fail(-EBUSY, "the session is open");
    c::Settings changed = session->settings;
    if (std::string wrong = c::set(changed, setting, value); !wrong.empty())
      return session->fail(-EINVAL, std::move(wrong));
    session->settings = std::move(changed);
    return 0;
  });
}

int urtrs_session_add_path(urtrs_session* session, const char* source, const char* destination,
                           uint16_t port) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] {
    return session->add_path(source == nullptr ? "" : source, destination == nullptr ? "" : destination,
                             port == 0 ? kDefaultPort : port);
  });
}

int urtrs_session_open(urtrs_session* session) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] { return session->open(); });
}

int urtrs_session_close(urtrs_session* session, int timeout_ms) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] {
    const int refused = session->refuse_wait();
    return refused != 0 ? refused : session->close(timeout_ms);
  });
}

int urtrs_session_free(urtrs_session* session) {
  if (session == nullptr) return 0;
  // In a forked child, freeing the session would end the connections that the child shares with its parent.
  if (!session->is_of_this_process()) return 0;
  if (session->in_callback) return -EDEADLK;
  delete session;
  return 0;
}

const char* urtrs_session_message(const urtrs_session* session) {
  return session == nullptr ? "" : session->message.c_str();
}

int urtrs_session_fd(const urtrs_session* session) {
  return session != nullptr && session->fabric ? session->fabric->wait_fd() : -1;
}

int urtrs_session_prepare(urtrs_session* session) {
  if (session == nullptr) return -EINVAL;
  if (!session->is_of_this_process()) return 0;  // a later urtrs_session_poll() returns the error
  const Nanos due = session->sleep_until();
  if (due == kNever) return -1;
  const Nanos now = platform::steady_now();
  if (due <= now) return 0;
  // The time is rounded up, so that a timer is due when the sleep ends.
  return static_cast<int>(std::min<Nanos>((due - now + milliseconds(1) - 1) / milliseconds(1), 60'000));
}

int urtrs_session_poll(urtrs_session* session) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] {
    const int refused = session->refuse_wait();
    return refused != 0 ? refused : session->poll();
  });
}

int urtrs_session_wait(urtrs_session* session, int timeout_ms) {
  if (session == nullptr) return -EINVAL;
  return c::answered(*session, [&] {
    if (const int refused = session->refuse_wait(); refused != 0) return refused;
    if (!session->client) return session->fail(-ENOTCONN, "the session is not open");
    const Nanos now = platform::steady_now();
    const Nanos end =
        timeout_ms < 0 ? kNever : later(now, milliseconds(static_cast<std::uint64_t>(timeout_ms)));
    for (;;) {
      const int count = session->poll();
      if (count != 0) return count;
      if (session->is_over())
        return session->fail(-ESHUTDOWN, "the session has ended, and reports no more events");
      if (platform::steady_now() >= end) return -ETIMEDOUT;
      if (const int slept = session->sleep(end); slept != 0) return slept;
    }
  });
}

int urtrs_session_get_stats(const urtrs_session* session, urtrs_stats* stats, size_t size) {
  if (session == nullptr) return -EINVAL;
  urtrs_stats filled{};
  filled.under_way = session->under_way;
  filled.devices = static_cast<std::uint32_t>(session->devices.size());
  filled.paths = static_cast<std::uint32_t>(session->options.session.paths.size());
  if (session->client) {
    const Client& client = session->client->session();
    const ClientStats& counted = client.stats();
    filled.reads = counted.reads;
    filled.writes = counted.writes;
    filled.read_bytes = counted.read_bytes;
    filled.write_bytes = counted.write_bytes;
    filled.errors = counted.errors;
    filled.failovers = counted.failovers;
    filled.paths = static_cast<std::uint32_t>(client.paths().size());
    for (const PathStatus& path : client.paths())
      filled.connected_paths += path.state == PathState::connected ? 1 : 0;
  }
  return c::fill(stats, filled, size);
}

int urtrs_session_get_path(const urtrs_session* session, uint32_t index, urtrs_path* path, size_t size) {
  if (session == nullptr) return -EINVAL;
  const bool open = session->client.has_value();
  const auto& given = session->options.session.paths;
  if (index >= (open ? session->client->session().paths().size() : given.size())) return -ENOENT;
  const PathAddress& address = open ? session->client->session().address(index) : given[index];
  const PathStatus status = open ? session->client->session().paths()[index] : PathStatus{};
  urtrs_path filled{};
  filled.source = address.source.c_str();
  filled.destination = address.destination.c_str();
  filled.state = to_string(status.state);
  filled.reason = to_string(status.reason);
  filled.port = address.port;
  filled.attempt = status.attempt;
  filled.in_flight = status.inflight;
  filled.requests = status.ios;
  filled.reconnects = status.reconnects;
  filled.last_cause = to_string(status.last_cause);
  return c::fill(path, filled, size);
}

int urtrs_session_on_path(urtrs_session* session, urtrs_path_callback callback, void* user) {
  if (session == nullptr) return -EINVAL;
  session->on_path = callback;
  session->on_path_user = user;
  return 0;
}

}  // extern "C"
