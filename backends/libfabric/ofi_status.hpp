// What libfabric's error numbers mean to the protocol and to a reader of the log.
#pragma once
#include <string>

#include "core/proto/errc.hpp"

namespace rtrs::ofi {

// `error` is positive here: an errno or one of libfabric's own numbers.

// Why a connect attempt failed. Providers use one number for "rejected" and "nobody listens"; a rejection
// carries data.
Reason connect_reason(int error, bool has_reject_data) noexcept;
// Why a connection that was up is gone.
Reason loss_reason(int error) noexcept;
Errc to_errc(int error) noexcept;
std::string error_text(int error);

}  // namespace rtrs::ofi
