// Decodes the name of a device in a trace.
#pragma once
#include <string>

#include "core/record/device_name.hpp"

namespace rtrs::trace {

// Returns the bytes that name_text() encoded.
std::string recorded_name(const NameText& recorded);

}  // namespace rtrs::trace
