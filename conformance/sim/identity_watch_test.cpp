// Oracle O25: histories that it must reject or accept.
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
  void connect(PeerIdentity who, ConKey at) {
    watch.asked(++requests, who);
    watch.accepted(requests, at, 0);
  }
  bool failed() const { return judge.failed() && judge.failure().oracle == Oracle::identities; }
  Judge judge;
  IdentityWatch watch{judge};
  std::uint32_t requests = 0;
};

TEST_F(IdentityWatchTest, clients_in_their_own_sessions_are_accepted) {
  connect(kAlice, key(0, 1));
  connect(kAlice, key(0, 2));
  connect(kBob, key(1, 3));
  EXPECT_FALSE(judge.failed());
}

TEST_F(IdentityWatchTest, a_foreign_client_in_the_session_is_found) {
  connect(kAlice, key(0, 1));
  connect(kBob, key(0, 2));
  EXPECT_TRUE(failed());
}

TEST_F(IdentityWatchTest, a_client_without_an_identity_is_found) {
  connect(kAlice, key(0, 1));
  connect({}, key(0, 2));
  EXPECT_TRUE(failed());
}

TEST_F(IdentityWatchTest, an_ended_session_has_no_owner) {
  connect(kAlice, key(0, 1));
  connect(kAlice, key(0, 2));
  watch.closed(key(0, 1));
  watch.closed(key(0, 2));
  connect(kBob, key(0, 3));
  EXPECT_FALSE(judge.failed());
  connect(kAlice, key(0, 4));
  EXPECT_TRUE(failed());
}

TEST_F(IdentityWatchTest, a_rejected_client_is_not_in_the_session) {
  connect(kAlice, key(0, 1));
  watch.asked(77, kBob);
  watch.rejected(77);
  connect(kAlice, key(0, 2));
  EXPECT_FALSE(judge.failed());
}

}  // namespace
}  // namespace rtrs::sim::identity_watch_test
