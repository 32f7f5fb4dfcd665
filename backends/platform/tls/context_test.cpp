// Tests how a Context reports the expiry of certificates.
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "backends/platform/tls/test_channel.hpp"

namespace rtrs::tls::context_test {
namespace {

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Context, WarnsFourteenDaysBeforeExpiry) {
  TestCredentials files;
  const auto of = [&files](const Wanted& wanted) { return context_of(files.issue(wanted)); };
  constexpr long kDay = 24L * 3600;
  const auto late = of({.until_seconds = 9 * kDay + 3600});
  expect_has(warning(*late), ": the certificate expires in 9 days (");
  expect_has(warning(*late), " UTC), and peers reject it then; replace it");
  expect_has(warning(*of({.until_seconds = 14 * kDay - 60})), "expires in 13 days");
  EXPECT_EQ(warning(*of({.until_seconds = 14 * kDay + 60})), "");
  expect_has(warning(*of({.until_seconds = 5 * kDay - 60, .by_intermediate = true})), "expires in 4 days");
  TestCredentials of_old_ca(3 * kDay + 60);
  const auto old = context_of(of_old_ca.issue({}));
  expect_has(warning(*old), ": the certificate of the CA expires in 3 days");
  const std::vector<Expiry> ends = expiries(*old);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].what + " and " + ends[1].what, "certificate and CA");
  EXPECT_LT(std::abs(static_cast<double>(ends[1].time - ::time(nullptr) - 3 * kDay)), 3600);
}

}  // namespace
}  // namespace rtrs::tls::context_test
