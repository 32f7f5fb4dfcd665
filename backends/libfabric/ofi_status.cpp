#include "backends/libfabric/ofi_status.hpp"

#include <rdma/fi_errno.h>

#include <cerrno>

#include "backends/libfabric/ofi_library.hpp"

namespace rtrs::ofi {

Reason connect_reason(int error, bool has_reject_data) noexcept {
  switch (error) {
    case FI_ECONNREFUSED:
      return has_reject_data ? Reason::rejected : Reason::connect_refused;
    case FI_EIO:
    // Provider tcp 1.17 reports the errno of its connect() call if the peer closes before it answers.
    case EINPROGRESS:
      return Reason::peer_closed;
    default:
      return reason_of_connect_errno(error);
  }
}

Reason loss_reason(int error) noexcept {
  switch (error) {
    case FI_ECANCELED:
      return Reason::peer_closed;
    case FI_ENODEV:
      return Reason::fabric_gone;
    default:
      return reason_of_loss_errno(error);
  }
}

std::string error_text(int error) {
  return std::string(library().strerror(error)) + " (" + std::to_string(error) + ")";
}

}  // namespace rtrs::ofi
