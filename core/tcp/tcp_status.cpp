#include "core/tcp/tcp_status.hpp"

#include <cerrno>
#include <system_error>

#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

Reason connect_reason(int error) noexcept {
  switch (error) {
    case ECONNREFUSED:
      return Reason::connect_refused;
    case ETIMEDOUT:
      return Reason::connect_timeout;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Reason::address_unresolved;
    case kUnresolved:
    case kNoNameServiceAnswer:
      return Reason::name_unresolved;
    case kNotOurs:
      return Reason::source_unavailable;
    case 0:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
      return Reason::peer_closed;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
      return Reason::no_resources;
    case kRefused:
      return Reason::tls_failed;
    default:
      return Reason::transport_error;
  }
}

Reason loss_reason(int error) noexcept {
  switch (error) {
    case 0:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
      return Reason::peer_closed;
    case ENOMEM:
    case ENOBUFS:
      return Reason::no_resources;
    case kRefused:
      return Reason::tls_failed;
    default:
      return Reason::transport_error;
  }
}

Errc to_errc(int error) noexcept {
  switch (error) {
    case 0:
      return Errc::ok;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
      return Errc::no_memory;
    case EADDRINUSE:
      return Errc::address_in_use;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Errc::bad_address;
    case EACCES:
    case EPERM:
      return Errc::no_permission;
    case EINVAL:
      return Errc::invalid;
    default:
      return Errc::fabric_error;
  }
}

std::string error_text(int error) {
  if (error == kUnresolved) return "the name or address does not resolve to a host";
  if (error == kNotOurs) return "its source is not an address of this host, or has another family";
  if (error == kNoNameServiceAnswer) return "the name service (DNS) does not resolve it";
  return std::generic_category().message(error) + " (" + std::to_string(error) + ")";
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace rtrs::tcp
