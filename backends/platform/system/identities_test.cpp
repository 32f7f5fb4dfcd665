#include "backends/platform/system/identities.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rtrs::platform::identities_test {
namespace {

std::vector<wire::Uuid> all_of(const ClientOptions& options) {
  std::vector<wire::Uuid> all = options.path_uuids;
  all.push_back(options.session_uuid);
  return all;
}

TEST(Identities, AllIdentitiesAreUnique) {
  ClientOptions first;
  ClientOptions second;
  draw_identities(first);
  draw_identities(second);
  EXPECT_EQ(first.path_uuids.size(), kMaxPaths);
  std::vector<wire::Uuid> all = all_of(first);
  for (const wire::Uuid& one : all_of(second)) all.push_back(one);
  all.push_back({});  // no identity may be all zeros
  for (auto one = all.begin(); one != all.end(); ++one)
    EXPECT_EQ(std::find(one + 1, all.end(), *one), all.end());
}

TEST(Identities, DrawingAgainReplacesAllIdentities) {
  ClientOptions options;
  draw_identities(options);
  const std::vector<wire::Uuid> former = all_of(options);
  draw_identities(options);
  EXPECT_EQ(options.path_uuids.size(), kMaxPaths);
  for (const wire::Uuid& one : all_of(options))
    EXPECT_EQ(std::find(former.begin(), former.end(), one), former.end());
}

}  // namespace
}  // namespace rtrs::platform::identities_test
