// What the numbers of libibverbs and librdmacm mean to the protocol and to a reader of the log.
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <string>

#include "core/proto/errc.hpp"

namespace rtrs::verbs {

// Why a connect attempt failed; `status` as its event carries it: a negative errno, or, when the peer
// rejected, the number that InfiniBand has for the reason.
Reason connect_reason(rdma_cm_event_type event, int status) noexcept;
// The same for a reader.
std::string connect_text(rdma_cm_event_type event, int status);
// Why a connection that was up is gone.
Reason loss_reason(ibv_wc_status status) noexcept;
Errc to_errc(int error) noexcept;
// "Invalid argument (22)"
std::string errno_text(int error);
// What to do when `bytes` could not be registered although there is memory: empty, or "; " and a sentence.
std::string memlock_advice(std::size_t bytes);

}  // namespace rtrs::verbs
