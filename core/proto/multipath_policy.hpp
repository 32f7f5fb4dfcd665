#pragma once
#include <cstdint>

namespace rtrs {

// How a client session chooses the path of a request (protocol section 6.1). The values are the kernel's.
enum class MultipathPolicy : std::uint8_t { round_robin = 0, min_inflight = 1, min_latency = 2 };
const char* to_string(MultipathPolicy) noexcept;

}  // namespace rtrs
