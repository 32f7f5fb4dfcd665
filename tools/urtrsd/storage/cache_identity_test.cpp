#include "tools/urtrsd/storage/cache_identity.hpp"

#include <gtest/gtest.h>

#include <set>

namespace rtrs::daemon::cache_identity_test {
namespace {

constexpr DeviceId kFile{ExportKind::file, 8, 12};
constexpr DeviceId kDisk{ExportKind::block_device, 8, 12};
constexpr DeviceId kMemory{ExportKind::memory, 0, 12};

TEST(CacheIdentity, OnlyMemoryDiffersForAnotherProcessOfTheHost) {
  const CacheIdentity before("boot", 1), after("boot", 2);
  EXPECT_EQ(before.instance(kFile, 0), after.instance(kFile, 0));
  EXPECT_EQ(before.instance(kDisk, 5), after.instance(kDisk, 5));
  EXPECT_NE(before.instance(kMemory, 0), after.instance(kMemory, 0));
}

TEST(CacheIdentity, AllInstancesDifferForAnotherHost) {
  const CacheIdentity before("boot", 1), after("boot again", 1);
  EXPECT_NE(before.instance(kFile, 0), after.instance(kFile, 0));
  EXPECT_NE(before.instance(kDisk, 5), after.instance(kDisk, 5));
}

TEST(CacheIdentity, EveryExportHasItsOwnInstance) {
  const CacheIdentity cache("boot", 1);
  std::set<std::uint64_t> seen;
  for (const auto kind : {ExportKind::file, ExportKind::block_device, ExportKind::memory})
    for (const std::uint64_t major : {0U, 1U, 259U})
      for (const std::uint64_t minor : {0U, 1U, 259U})
        for (const std::uint64_t sequence : {0U, 1U})
          EXPECT_TRUE(seen.insert(cache.instance({kind, major, minor}, sequence)).second);
  EXPECT_EQ(seen.count(0), 0U);
}

TEST(CacheIdentity, FailedSyncChangesTheInstanceOfThatExportOnly) {
  CacheIdentity cache("boot", 1);
  const std::uint64_t file = cache.instance(kFile, 0), disk = cache.instance(kDisk, 0);
  cache.on_failed_sync(kFile);
  const std::uint64_t once = cache.instance(kFile, 0);
  EXPECT_NE(once, file);
  EXPECT_EQ(cache.instance(kDisk, 0), disk);
  cache.on_failed_sync(kFile);
  EXPECT_NE(cache.instance(kFile, 0), once);
}

TEST(CacheIdentity, FailedSyncsOfDifferentProcessesGiveDifferentInstances) {
  CacheIdentity before("boot", 1), after("boot", 2);
  const std::uint64_t sound = before.instance(kFile, 0);
  before.on_failed_sync(kFile);
  EXPECT_EQ(after.instance(kFile, 0), sound) << "only the other process saw the failure";
  after.on_failed_sync(kFile);
  EXPECT_NE(after.instance(kFile, 0), before.instance(kFile, 0));
}

TEST(CacheIdentity, WithoutABootIdTheInstanceIsUnknownExceptForMemory) {
  const CacheIdentity cache("", 1);
  EXPECT_FALSE(cache.knows_host());
  EXPECT_EQ(cache.instance(kFile, 0), 0U);
  EXPECT_EQ(cache.instance(kDisk, 0), 0U);
  EXPECT_NE(cache.instance(kMemory, 0), 0U);
}

TEST(CacheIdentity, SystemIdentityIsStableExceptForMemory) {
  const CacheIdentity one = CacheIdentity::of_system(), other = CacheIdentity::of_system();
  ASSERT_TRUE(one.knows_host());
  EXPECT_EQ(one.instance(kFile, 0), other.instance(kFile, 0));
  EXPECT_NE(one.instance(kMemory, 0), other.instance(kMemory, 0));
}

}  // namespace
}  // namespace rtrs::daemon::cache_identity_test
