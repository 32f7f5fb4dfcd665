// Maps libfabric error numbers to protocol reasons and log texts.
#pragma once
#include <string>

#include "core/fabric/errors.hpp"

namespace rtrs::ofi {

// `error` is a positive errno or one of libfabric's own positive numbers.

// Reason of a failed connect attempt. Providers use the same number for "rejected" and "no listener"; only a
// reject carries data.
Reason connect_reason(int error, bool has_reject_data) noexcept;
// Reason for the loss of an established connection.
Reason loss_reason(int error) noexcept;
std::string error_text(int error);

}  // namespace rtrs::ofi
