#include "core/driver/ring.hpp"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>
#include <deque>
#include <set>

namespace rtrs::ring_test {
namespace {

RC_GTEST_PROP(Ring, BehavesLikeADeque, (const std::vector<bool>& pushes)) {
  const auto capacity = *rc::gen::inRange<std::size_t>(1, 9);
  Ring<int> ring;
  ring.open(capacity);
  std::deque<int> model;
  std::set<const int*> places;
  int next = 0;
  for (const bool push : pushes) {
    if (push && !ring.full()) {
      int& item = ring.push();
      places.insert(&item);
      item = next;
      model.push_back(next++);
    } else if (!push && !ring.empty()) {
      ring.pop();
      model.pop_front();
    }
    RC_ASSERT(ring.size() == model.size());
    RC_ASSERT(ring.full() == (model.size() == capacity));
    RC_ASSERT(ring.empty() == model.empty());
    if (model.empty()) continue;
    RC_ASSERT(ring.front() == model.front());
    RC_ASSERT(ring.back() == model.back());
  }
  RC_ASSERT(places.size() <= capacity);
}

// A queue that is often empty uses little of its memory.
TEST(Ring, EmptyRingStartsOver) {
  Ring<int> ring;
  ring.open(8);
  const int* const first = &ring.push();
  ring.pop();
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(&ring.push(), first);
    ring.pop();
  }
}

// pop() and push() keep an item's buffer, so that it is allocated only once.
TEST(Ring, ItemsKeepTheirBuffers) {
  Ring<std::vector<int>> ring;
  ring.open(2);
  ring.push().assign(100, 1);
  const int* const buffer = ring.front().data();
  ring.pop();
  ring.push();
  ring.pop();
  EXPECT_EQ(ring.push().data(), buffer);
}

}  // namespace
}  // namespace rtrs::ring_test
