// Replaces operator new and delete of the program, so that a test can count allocations.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs::bench {

// Number of allocations of this thread so far.
std::uint64_t allocations() noexcept;

// Makes a future allocation of this thread fail: among those of at least `bytes` bytes, the one after
// `before` others. `bytes` 0: none fails. Returns true if the failure that the previous call requested has
// happened.
bool fail_allocation(std::size_t bytes, unsigned before) noexcept;

}  // namespace rtrs::bench
