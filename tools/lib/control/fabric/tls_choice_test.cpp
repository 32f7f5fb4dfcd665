#include "tools/lib/control/fabric/tls_choice.hpp"

#include <gtest/gtest.h>

namespace rtrs::tools::tls_choice_test {
namespace {

constexpr Nanos kDay = seconds(24ULL * 3600);

TEST(DailyRateLimit, IsDueOnceADayStartingOneDayAfterTheStart) {
  DailyRateLimit warning(seconds(7));
  EXPECT_FALSE(warning.is_due(seconds(7)));
  EXPECT_FALSE(warning.is_due(kDay));
  EXPECT_TRUE(warning.is_due(kDay + seconds(7)));
  EXPECT_FALSE(warning.is_due(kDay + seconds(3600)));
  EXPECT_TRUE(warning.is_due(3 * kDay));
  EXPECT_FALSE(warning.is_due(4 * kDay - 1));
  EXPECT_TRUE(warning.is_due(4 * kDay));
}

}  // namespace
}  // namespace rtrs::tools::tls_choice_test
