#include "core/driver/index_queue.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>

namespace rtrs::index_queue_test {
namespace {

struct Item {
  std::uint32_t next = kNoIndex;
};

// Compares each queue with a plain queue; items move between the queues.
RC_GTEST_PROP(IndexQueue, BehavesLikePlainQueues, ()) {
  std::vector<Item> items(6);
  IndexQueue free, taken;
  std::deque<std::uint32_t> plain_free, plain_taken;
  for (std::uint32_t index = 0; index < items.size(); ++index) {
    free.push_back(items, index);
    plain_free.push_back(index);
  }
  const auto move = [&items](IndexQueue& from, std::deque<std::uint32_t>& plain_from, IndexQueue& to,
                             std::deque<std::uint32_t>& plain_to, bool in_front) {
    if (plain_from.empty()) return;
    const std::uint32_t index = from.pop_front(items);
    RC_ASSERT(index == plain_from.front());
    plain_from.pop_front();
    if (in_front) {
      to.push_front(items, index);
      plain_to.push_front(index);
    } else {
      to.push_back(items, index);
      plain_to.push_back(index);
    }
  };
  for (int step = 0; step < 200; ++step) {
    const bool in_front = *rc::gen::arbitrary<bool>();
    if (*rc::gen::arbitrary<bool>()) {
      move(free, plain_free, taken, plain_taken, in_front);
    } else {
      move(taken, plain_taken, free, plain_free, in_front);
    }
    RC_ASSERT(taken.empty() == plain_taken.empty());
    RC_ASSERT(free.empty() == plain_free.empty());
    if (!taken.empty()) RC_ASSERT(taken.front() == plain_taken.front());
  }
}

}  // namespace
}  // namespace rtrs::index_queue_test
