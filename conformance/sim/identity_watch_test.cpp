// Oracle O25: histories that it must reject, and histories that it must accept.
#include "sim/oracles/identity_watch.hpp"

#include <gtest/gtest.h>

#include "core/proto/limits.hpp"

namespace rtrs::sim::identity_watch_test {
namespace {

constexpr PeerIdentity kAlice{.low = 1, .high = 1};
constexpr PeerIdentity kBob{.low = 1, .high = 2};

struct IdentityWatchTest : ::testing::Test {
  static ConKey key(unsigned session, std::uint32_t epoch) {
    return ConKey{0, 0, epoch, static_cast<std::uint16_t>(session)};
  }
  void come(PeerIdentity who, ConKey at) {
    watch.asked(++requests, who);
    watch.accepted(requests, at, 0);
  }
  bool failed() const { return judge.failed() && judge.failure().oracle == Oracle::identities; }
  Judge judge;
  IdentityWatch watch{judge};
  std::uint32_t requests = 0;
};

TEST_F(IdentityWatchTest, each_in_a_session_of_his_own_is_good) {
  come(kAlice, key(0, 1));
  come(kAlice, key(0, 2));
  come(kBob, key(1, 3));
  EXPECT_FALSE(judge.failed());
}

TEST_F(IdentityWatchTest, a_stranger_in_the_session_is_not) {
  come(kAlice, key(0, 1));
  come(kBob, key(0, 2));
  EXPECT_TRUE(failed());
}

TEST_F(IdentityWatchTest, a_client_without_an_identity_is_a_stranger_too) {
  come(kAlice, key(0, 1));
  come({}, key(0, 2));
  EXPECT_TRUE(failed());
}

TEST_F(IdentityWatchTest, a_session_that_ended_is_nobodys) {
  come(kAlice, key(0, 1));
  come(kAlice, key(0, 2));
  watch.closed(key(0, 1));
  watch.closed(key(0, 2));
  come(kBob, key(0, 3));
  EXPECT_FALSE(judge.failed());
  come(kAlice, key(0, 4));
  EXPECT_TRUE(failed());
}

TEST_F(IdentityWatchTest, who_was_rejected_is_not_in) {
  come(kAlice, key(0, 1));
  watch.asked(77, kBob);
  watch.rejected(77);
  come(kAlice, key(0, 2));
  EXPECT_FALSE(judge.failed());
}

}  // namespace
}  // namespace rtrs::sim::identity_watch_test
