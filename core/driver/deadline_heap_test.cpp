#include "core/driver/deadline_heap.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace rtrs::deadline_heap_test {
namespace {

TEST(DeadlineHeap, EqualDeadlinesAreOrderedByIndex) {
  DeadlineHeap heap(4);
  EXPECT_EQ(heap.first(), kNever);
  for (const unsigned index : {3U, 1U, 2U}) heap.set(static_cast<std::uint16_t>(index), 7);
  EXPECT_EQ(heap.first_index(), 1);
  heap.set(1, kNever);
  EXPECT_EQ(heap.first_index(), 2);
  heap.set(2, 8);
  EXPECT_EQ(heap.first_index(), 3);
  heap.set(0, 6);
  EXPECT_EQ(heap.first(), 6U);
  EXPECT_EQ(heap.first_index(), 0);
}

// Compares the heap with a plain table and linear search.
RC_GTEST_PROP(DeadlineHeap, AgreesWithLinearSearch, ()) {
  constexpr std::uint16_t kCount = 20;
  DeadlineHeap heap(kCount);
  std::vector<Nanos> table(kCount, kNever);
  const auto steps = *rc::gen::container<std::vector<std::pair<std::uint16_t, Nanos>>>(
      rc::gen::pair(rc::gen::inRange<std::uint16_t>(0, kCount), rc::gen::inRange<Nanos>(0, 12)));
  for (const auto& [index, draw] : steps) {
    const Nanos when = draw == 0 ? kNever : draw;
    heap.set(index, when);
    table[index] = when;
    const auto least = std::min_element(table.begin(), table.end());
    RC_ASSERT(heap.first() == *least);
    RC_ASSERT(heap.empty() == (*least == kNever));
    if (!heap.empty()) RC_ASSERT(heap.first_index() == static_cast<std::uint16_t>(least - table.begin()));
  }
}

}  // namespace
}  // namespace rtrs::deadline_heap_test
