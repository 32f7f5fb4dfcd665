// After the connections are made, neither side allocates: counted over 100,000 requests.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "conformance/bench/pair.hpp"

namespace {
std::uint64_t allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
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

namespace rtrs::bench {

TEST(Allocations, NoneInAHundredThousandRequests) {
  for (const unsigned paths : {1U, 4U}) {
    Pair pair(paths, true);
    ASSERT_TRUE(pair.ready(paths));
    // The first of each kind make what is kept, such as the key of the application's memory.
    for (const Direction direction : {Direction::write, Direction::read})
      ASSERT_TRUE(pair.one(direction, 4096));
    const std::uint64_t before = allocations;
    EXPECT_GT(before, 0U);
    for (unsigned request = 0; request < 100'000; ++request)
      ASSERT_TRUE(pair.one(request % 2 == 0 ? Direction::write : Direction::read, 4096));
    EXPECT_EQ(allocations - before, 0U) << paths << " paths";
  }
}

}  // namespace rtrs::bench
