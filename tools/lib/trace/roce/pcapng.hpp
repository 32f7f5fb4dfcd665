// Numbers of the pcapng format that its reader and its writer share.
#pragma once
#include <cstdint>

namespace rtrs::roce {

// Option of an interface: the unit of its time stamps, as a power of ten.
constexpr std::uint16_t kOptionResolution = 9;

}  // namespace rtrs::roce
