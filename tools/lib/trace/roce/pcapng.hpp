// Constants of the pcapng format, used by reader and writer.
#pragma once
#include <cstdint>

namespace rtrs::roce {

// Interface option if_tsresol: unit of the time stamps, as a power of ten.
constexpr std::uint16_t kOptionResolution = 9;

}  // namespace rtrs::roce
