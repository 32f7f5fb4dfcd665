#include "core/fabric/key_sequence.hpp"

#include <gtest/gtest.h>

#include <unordered_set>

namespace rtrs::key_sequence_test {
namespace {

KeySequence::Secret secret_of(std::uint64_t seed) {
  KeySequence::Secret secret;
  for (std::uint64_t& part : secret) part = seed = seed * 6364136223846793005u + 1442695040888963407u;
  return secret;
}

TEST(KeySequence, keys_are_unique_and_never_zero) {
  KeySequence keys(secret_of(7));
  std::unordered_set<std::uint32_t> seen;
  for (int i = 0; i < 300'000; ++i) {
    const std::uint32_t key = keys.next();
    ASSERT_NE(key, 0u);
    ASSERT_TRUE(seen.insert(key).second) << "key " << key << " was repeated after " << i;
  }
}

TEST(KeySequence, keys_depend_on_the_secret_and_are_not_sequential) {
  KeySequence one(secret_of(1));
  KeySequence other(secret_of(2));
  int equal = 0;
  int neighbours = 0;
  std::uint32_t last = one.next();
  other.next();
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t key = one.next();
    equal += key == other.next();
    neighbours += key - last < 256;
    last = key;
  }
  EXPECT_LE(equal, 2);
  EXPECT_LE(neighbours, 2);
}

}  // namespace
}  // namespace rtrs::key_sequence_test
