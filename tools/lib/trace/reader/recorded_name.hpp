// The name of a device out of its text in a trace.
#pragma once
#include <string>

#include "core/record/device_name.hpp"

namespace rtrs::trace {

// The bytes of which name_text() made this text.
std::string recorded_name(const NameText& recorded);

}  // namespace rtrs::trace
