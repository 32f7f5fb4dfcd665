// Allocations that fail when a test says so. Replaces operator new of the whole program: for one file of it.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>

namespace rtrs::test {
// Until one fails, and that is the last that does; 0: none does.
inline std::size_t allocations_left = 0;
}  // namespace rtrs::test

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (rtrs::test::allocations_left != 0 && --rtrs::test::allocations_left == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// As the one of the library does; those of the sanitizers do not.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
