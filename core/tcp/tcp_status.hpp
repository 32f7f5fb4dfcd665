// What errno values, and those that the transport adds to them, mean to the protocol and to a reader of the
// log.
#pragma once
#include <string>

#include "core/proto/errc.hpp"

namespace rtrs::tcp {

Reason connect_reason(int error) noexcept;
// Why a connection that was up is gone.
Reason loss_reason(int error) noexcept;
Errc to_errc(int error) noexcept;
std::string error_text(int error);  // "Connection refused (111)"
// No descriptor, or no memory of the kernel.
bool is_shortage(int error) noexcept;

}  // namespace rtrs::tcp
