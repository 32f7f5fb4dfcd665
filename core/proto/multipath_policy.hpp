#pragma once
#include <cstdint>

namespace rtrs {

// Policy by which a client session selects the path of a request (protocol section 6.1). Same values as in
// the kernel.
enum class MultipathPolicy : std::uint8_t { round_robin = 0, min_inflight = 1, min_latency = 2 };
const char* to_string(MultipathPolicy) noexcept;

}  // namespace rtrs
