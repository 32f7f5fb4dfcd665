// Replaces operator new and delete of the program, so that a test can count allocations.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs::bench {

// Number of allocations of this thread so far.
std::uint64_t allocations() noexcept;

// Makes one future allocation of this thread fail: the first of at least `bytes` bytes after `before` others
// of that size. `bytes` 0: none. Returns true if the failure that the previous call requested has happened.
bool fail_allocation(std::size_t bytes, unsigned before) noexcept;

}  // namespace rtrs::bench
