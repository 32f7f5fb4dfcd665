// Replaces operator new and delete of the program, so that a test can count what it allocates.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs::bench {

// Allocations by this thread so far.
std::uint64_t allocations() noexcept;

// From now on fails the allocation of at least `bytes` that comes behind `before` others of that size, by
// this thread, and no other. True when the last one that was asked for has failed.
bool fail_allocation(std::size_t bytes, unsigned before) noexcept;

}  // namespace rtrs::bench
