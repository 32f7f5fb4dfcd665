// Makes allocations fail when a test requests it. Replaces operator new of the whole program, so include it
// in one file only.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>

namespace rtrs::test {
// Number of allocations up to and including the one that fails; 0: none fails.
inline std::size_t allocations_left = 0;
}  // namespace rtrs::test

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (rtrs::test::allocations_left != 0 && --rtrs::test::allocations_left == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// Works like the operator of the standard library; the operators of the sanitizers behave differently.
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
