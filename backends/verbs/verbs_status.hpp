// Maps status and error codes of libibverbs and librdmacm to protocol reasons and log texts.
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <string>

#include "core/fabric/errors.hpp"

namespace rtrs::verbs {

// Reason of a failed connect attempt. `status`: from the event; a negative errno, or the InfiniBand reject
// reason if the peer rejected.
Reason connect_reason(rdma_cm_event_type event, int status) noexcept;
// Returns the log text for the same failed attempt.
std::string connect_text(rdma_cm_event_type event, int status);
// Reason for the loss of an established connection.
Reason loss_reason(ibv_wc_status status) noexcept;
// Returns for example "Invalid argument (22)".
std::string errno_text(int error);
// Returns advice for the user if `bytes` could not be registered although memory is free. The text is empty
// or begins with "; ".
std::string memlock_advice(std::size_t bytes);

}  // namespace rtrs::verbs
