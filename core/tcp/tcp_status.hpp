// Maps errno values, and the transport's additional error numbers, to protocol reasons and log texts.
#pragma once
#include <string>

#include "core/fabric/errors.hpp"

namespace rtrs::tcp {

Reason connect_reason(int error) noexcept;
// Returns the reason for the loss of an established connection.
Reason loss_reason(int error) noexcept;
std::string error_text(int error);  // returns for example "Connection refused (111)"
// True if descriptors or kernel memory are exhausted.
bool is_shortage(int error) noexcept;

}  // namespace rtrs::tcp
