#include "core/proto/errc.hpp"

#include "core/proto/actions.hpp"
#include "core/proto/multipath_policy.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

const char* to_string(Errc errc) noexcept {
  switch (errc) {
    case Errc::ok:
      return "ok";
    case Errc::peer_error:
      return "the server reported an error";
    case Errc::no_path:
      return "no path is connected";
    case Errc::queue_full:
      return "too many requests are queued";
    case Errc::too_large:
      return "the request does not fit the server's buffers";
    case Errc::session_closed:
      return "the session is closed";
    case Errc::not_open:
      return "the session is not open";
    case Errc::no_memory:
      return "out of memory";
    case Errc::not_supported:
      return "not supported by this fabric";
    case Errc::bad_address:
      return "the address does not parse, or is not one of this host";
    case Errc::address_in_use:
      return "address in use";
    case Errc::no_permission:
      return "permission denied";
    case Errc::no_such_path:
      return "no such path";
    case Errc::invalid:
      return "invalid argument";
    case Errc::fabric_error:
      return "fabric error";
    case Errc::request_timeout:
      return "the server did not answer in time";
    case Errc::no_permit:
      return "all permits belong to failed requests that the server may still execute";
    case Errc::cache_lost:
      return "the server's cache was replaced, acknowledged changes may be lost";
    case Errc::path_exists:
      return "the session has this path already";
  }
  return "unknown error";
}

std::uint16_t to_linux_errno(Errc errc) noexcept {
  using namespace wire::linux_errno;
  switch (errc) {
    case Errc::ok:
      return 0;
    case Errc::queue_full:
      return kEagain;
    case Errc::too_large:
      return kEmsgsize;
    case Errc::session_closed:
      return kEshutdown;
    case Errc::not_open:
      return kEnotconn;
    case Errc::no_memory:
      return kEnomem;
    case Errc::not_supported:
      return kEopnotsupp;
    case Errc::address_in_use:
      return kEaddrinuse;
    case Errc::no_permission:
      return kEacces;
    case Errc::request_timeout:
      return kEtimedout;
    case Errc::path_exists:
      return kEexist;
    case Errc::bad_address:
    case Errc::no_such_path:
    case Errc::invalid:
      return kEinval;
    case Errc::peer_error:
    case Errc::no_path:
    case Errc::no_permit:
    case Errc::cache_lost:
    case Errc::fabric_error:
      break;
  }
  return kEio;
}

const char* to_string(PathState state) noexcept {
  switch (state) {
    case PathState::absent:
      return "absent";
    case PathState::connecting:
      return "connecting";
    case PathState::connected:
      return "connected";
    case PathState::draining:
      return "draining";
    case PathState::waiting:
      return "waiting";
    case PathState::closing:
      return "closing";
    case PathState::closed:
      return "closed";
  }
  return "unknown";
}

const char* to_string(MultipathPolicy policy) noexcept {
  switch (policy) {
    case MultipathPolicy::round_robin:
      return "round-robin";
    case MultipathPolicy::min_inflight:
      return "min-inflight";
    case MultipathPolicy::min_latency:
      return "min-latency";
  }
  return "unknown";
}

}  // namespace rtrs
