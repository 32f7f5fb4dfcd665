// Replaces operator new and delete of the program, so that a test can count what it allocates.
#pragma once
#include <cstdint>

namespace rtrs::bench {

// Allocations by this thread so far.
std::uint64_t allocations() noexcept;

}  // namespace rtrs::bench
