#include "core/base/growing_vector.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/base/test_short_memory.hpp"

namespace rtrs::growing_vector_test {
namespace {

// A numbered item; the class counts its live instances.
struct Item {
  explicit Item(int n = 0) noexcept : number(n) { ++alive; }
  Item(const Item& other) noexcept : number(other.number) { ++alive; }
  Item& operator=(const Item&) noexcept = default;
  ~Item() { --alive; }
  bool operator==(const Item& other) const noexcept { return number == other.number; }
  int number;
  static inline int alive = 0;
};
using Vector = GrowingVector<Item, 4, 100>;

Vector filled(int count) {
  Vector vector;
  for (int i = 0; i < count; ++i) vector.push_back(Item(i));
  return vector;
}
std::vector<int> numbers(const Vector& vector) {
  std::vector<int> all;
  for (const Item& item : vector) all.push_back(item.number);
  return all;
}

TEST(GrowingVector, CopiesAreIndependent) {
  for (const int from : {0, 3, 4, 5, 100}) {
    for (const int to : {0, 3, 4, 5, 100}) {
      const Vector source = filled(from);
      Vector target = filled(to);
      target = source;
      EXPECT_EQ(target, source);
      Vector copy = target;
      EXPECT_EQ(copy, source);
      target.clear();
      EXPECT_EQ(copy.size(), static_cast<std::size_t>(from));
      EXPECT_EQ(numbers(copy), numbers(source));
    }
  }
  EXPECT_EQ(Item::alive, 0);
}

TEST(GrowingVector, OwnItemCanBeAppended) {
  Vector vector = filled(4);
  vector.push_back(vector[3]);
  EXPECT_EQ(numbers(vector), (std::vector<int>{0, 1, 2, 3, 3}));
}

TEST(GrowingVector, ResizeErasesAndFills) {
  Vector vector = filled(6);
  vector.erase_at(1);
  EXPECT_EQ(numbers(vector), (std::vector<int>{0, 2, 3, 4, 5}));
  vector.resize(2);
  vector.resize(4);
  EXPECT_EQ(numbers(vector), (std::vector<int>{0, 2, 0, 0}));
  EXPECT_EQ(Item::alive, 4);
}

TEST(GrowingVector, ClearKeepsMemoryAndResetFreesIt) {
  Vector vector = filled(50);
  vector.clear();
  EXPECT_GE(vector.capacity(), 50U);
  vector.reset();
  EXPECT_EQ(vector.capacity(), 4U);
  vector.push_back(Item(7));
  EXPECT_EQ(numbers(vector), std::vector<int>{7});
}

TEST(GrowingVector, FailedAllocationChangesNothing) {
  Vector vector = filled(4);
  test::allocations_left = 1;
  EXPECT_FALSE(vector.reserve(5));
  EXPECT_EQ(numbers(vector), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(vector.reserve(5));
}

}  // namespace
}  // namespace rtrs::growing_vector_test
