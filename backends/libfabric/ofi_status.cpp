#include "backends/libfabric/ofi_status.hpp"

#include <rdma/fi_errno.h>

#include <cerrno>

namespace rtrs::ofi {

Reason connect_reason(int error, bool has_reject_data) noexcept {
  switch (error) {
    case FI_ECONNREFUSED:
      return has_reject_data ? Reason::rejected : Reason::connect_refused;
    case FI_ETIMEDOUT:
      return Reason::connect_timeout;
    case FI_EHOSTUNREACH:
    case FI_ENETUNREACH:
    case FI_ENETDOWN:
    case FI_EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Reason::address_unresolved;
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ESHUTDOWN:
    case FI_ENOTCONN:
    case FI_EIO:
    // Provider tcp 1.17 reports the errno of its connect() call if the peer closes before it answers.
    case EINPROGRESS:
      return Reason::peer_closed;
    case FI_ENOMEM:
    case FI_EMFILE:
      return Reason::no_resources;
    default:
      return Reason::transport_error;
  }
}

Reason loss_reason(int error) noexcept {
  switch (error) {
    case 0:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ESHUTDOWN:
    case FI_ENOTCONN:
    case FI_ECANCELED:
    case EPIPE:
      return Reason::peer_closed;
    case FI_ENOMEM:
      return Reason::no_resources;
    case FI_ENODEV:
      return Reason::fabric_gone;
    default:
      return Reason::transport_error;
  }
}

Errc to_errc(int error) noexcept {
  switch (error) {
    case 0:
      return Errc::ok;
    case FI_ENOMEM:
    case FI_EMFILE:
      return Errc::no_memory;
    case FI_EADDRINUSE:
      return Errc::address_in_use;
    case FI_EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Errc::bad_address;
    case FI_EACCES:
    case FI_EPERM:
      return Errc::no_permission;
    case FI_ENOSYS:
    case FI_EOPNOTSUPP:
    case FI_ENODATA:
      return Errc::not_supported;
    case FI_EINVAL:
      return Errc::invalid;
    default:
      return Errc::fabric_error;
  }
}

std::string error_text(int error) {
  return std::string(library().strerror(error)) + " (" + std::to_string(error) + ")";
}

}  // namespace rtrs::ofi
