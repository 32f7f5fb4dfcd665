#include "tools/urtrsd/storage/access_table.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cerrno>
#include <vector>

namespace rtrs::daemon::access_table_test {
namespace {

constexpr DeviceId kDisk{ExportKind::file, 1, 2};

TEST(AccessTable, SecondWriterIsRejectedNamingTheFirst) {
  AccessTable table;
  auto first = table.acquire(kDisk, AccessMode::read_write, "alpha", "disk0");
  ASSERT_TRUE(first);
  const auto second = table.acquire(kDisk, AccessMode::read_write, "beta", "disk0");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().error, EPERM);
  EXPECT_EQ(second.error().sentence,
            "session \"beta\" may not open device \"disk0\" as rw: it already has 1 writer, "
            "the last one is session \"alpha\"");
  EXPECT_TRUE(table.acquire(kDisk, AccessMode::migration, "beta", "disk0"));
  first->release();
  EXPECT_TRUE(table.acquire(kDisk, AccessMode::read_write, "beta", "disk0"));
  EXPECT_TRUE(table.empty());
}

TEST(AccessTable, MovedLeaseIsReleasedOnce) {
  AccessTable table;
  auto lease = table.acquire(kDisk, AccessMode::read_write, "s", "d");
  ASSERT_TRUE(lease);
  {
    Lease moved = std::move(*lease);
    EXPECT_FALSE(*lease);
    EXPECT_EQ(table.writers(kDisk), 1U);
  }
  EXPECT_EQ(table.writers(kDisk), 0U);
  lease->release();
  EXPECT_TRUE(table.empty());
}

RC_GTEST_PROP(AccessTable, WritersAreLimitedByTheAccessRules, ()) {
  AccessTable table;
  std::vector<Lease> held;
  std::uint32_t writers = 0;
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6));
  for (const int step : steps) {
    if (step >= 3) {  // release a lease
      if (held.empty()) continue;
      const auto index = static_cast<std::size_t>(step) % held.size();
      if (held[index].mode() != AccessMode::read_only) --writers;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(index));
      continue;
    }
    const auto mode = static_cast<AccessMode>(step);
    const bool allowed =
        mode == AccessMode::read_only || writers < (mode == AccessMode::read_write ? 1U : 2U);
    auto lease = table.acquire(kDisk, mode, "s", "d");
    RC_ASSERT(lease.has_value() == allowed);
    if (!allowed) continue;
    if (mode != AccessMode::read_only) ++writers;
    held.push_back(std::move(*lease));
  }
  RC_ASSERT(table.writers(kDisk) == writers);
  RC_ASSERT(table.readers(kDisk) == held.size() - writers);
  held.clear();
  RC_ASSERT(table.empty());
}

}  // namespace
}  // namespace rtrs::daemon::access_table_test
