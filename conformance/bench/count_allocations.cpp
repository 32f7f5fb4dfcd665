#include "conformance/bench/count_allocations.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace {
thread_local std::uint64_t count = 0;
thread_local std::size_t failing_bytes = 0;  // minimum size of the failing allocation; 0: none fails
thread_local unsigned before_failing = 0;
thread_local bool failed = false;

bool fails(std::size_t bytes) noexcept {
  if (failing_bytes == 0 || bytes < failing_bytes) return false;
  if (before_failing-- != 0) return false;
  failing_bytes = 0;
  return failed = true;
}

void* counted(std::size_t bytes) noexcept {
  ++count;
  if (fails(bytes)) return nullptr;
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* counted_or_throw(std::size_t bytes) {
  if (void* memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}

void* counted_aligned(std::size_t bytes, std::align_val_t alignment) {
  ++count;
  if (fails(bytes)) throw std::bad_alloc();
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit))
    return memory;
  throw std::bad_alloc();
}
}  // namespace

std::uint64_t rtrs::bench::allocations() noexcept {
  return count;
}

bool rtrs::bench::fail_allocation(std::size_t bytes, unsigned before) noexcept {
  failing_bytes = bytes;
  before_failing = before;
  return std::exchange(failed, false);
}

void* operator new(std::size_t bytes) {
  return counted_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted_or_throw(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_aligned(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted_aligned(bytes, alignment);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
