// CrowdWatch, the oracle for too many clients: short histories that it must reject or accept.
#include <gtest/gtest.h>

#include <array>

#include "core/proto/limits.hpp"
#include "core/wire/linux_errno.hpp"
#include "core/wire/messages.hpp"
#include "sim/oracles/crowd_watch.hpp"

namespace rtrs::sim::crowd_watch_test {

namespace {

bool fails(const Judge& judge) {
  return judge.failed() && judge.failure().oracle == Oracle::crowds;
}

}  // namespace

// A server with limits: three sessions, two per address, one half-open session.
class CrowdWatchTest : public ::testing::Test {
 protected:
  static ServerConfig limits() {
    ServerConfig config;
    config.max_sessions = 3;
    config.max_host_sessions = 2;
    config.max_half_open = 1;
    return config;
  }
  static void ask(CrowdWatch& crowd, std::uint32_t request, std::uint32_t host) {
    wire::ConnReq message;
    message.cid_num = 2;
    message.first_conn = true;
    message.sess_uuid.bytes.fill(static_cast<std::uint8_t>(request + 1));
    message.paths_uuid.bytes.fill(static_cast<std::uint8_t>(request + 1));
    std::array<std::byte, wire::kConnReqBytes> bytes;
    EXPECT_EQ(wire::encode(message, bytes), bytes.size());
    crowd.asked(request, host, bytes);
  }
  static ConKey key(unsigned session) { return {0, 0, 1, static_cast<std::uint16_t>(session)}; }
  void open(unsigned session, std::uint32_t host) {
    watch.polled();
    ask(watch, session, host);
    watch.accepted(session, key(session), session);
  }
  void refuse(std::uint32_t request, int peer_errno) {
    std::array<std::byte, wire::kConnRspBytes> bytes;
    const std::size_t length = wire::encode(wire::make_reject(peer_errno), bytes);
    watch.rejected(request, std::span(bytes).first(length), request);
  }
  Judge judge;
  CrowdWatch watch{judge, limits()};
};

// The connections of the session have ended, but the server still executes requests of the session when a
// path joins again.
TEST_F(CrowdWatchTest, ReconnectedPathCreatesNoHalfOpenSession) {
  open(0, 7);
  watch.named(key(0));
  watch.lost(key(0));
  watch.closed(key(0));
  open(0, 7);
  open(1, 7);
  EXPECT_FALSE(judge.failed()) << judge.failure().text;
}

TEST_F(CrowdWatchTest, TooManyHalfOpenSessionsOfAnAddressAreFound) {
  open(0, 7);
  open(1, 8);
  EXPECT_FALSE(judge.failed());
  open(2, 7);
  EXPECT_TRUE(fails(judge));
}

TEST_F(CrowdWatchTest, TooManySessionsOfAnAddressAreFound) {
  for (unsigned session = 0; session < 2; ++session) {
    open(session, 7);
    watch.named(key(session));
  }
  EXPECT_FALSE(judge.failed());
  open(2, 7);
  EXPECT_TRUE(fails(judge));
}

TEST_F(CrowdWatchTest, EndedSessionsDoNotCount) {
  for (unsigned session = 0; session < 8; ++session) {
    open(session % 2, 7);
    watch.ended(key(session % 2));
    watch.closed(key(session % 2));
  }
  EXPECT_FALSE(judge.failed());
}

TEST_F(CrowdWatchTest, EvictionOfAYoungerSessionFirstIsFound) {
  ServerConfig config = limits();
  config.max_host_sessions = 3;
  config.max_half_open = 2;
  for (const unsigned which : {0U, 1U}) {
    Judge of_this;
    CrowdWatch crowd(of_this, config);
    for (unsigned session = 0; session < 3; ++session) {
      crowd.polled();
      ask(crowd, session, 7);
      if (session == 2) crowd.ended(key(which));
      crowd.accepted(session, key(session), session);
    }
    EXPECT_EQ(fails(of_this), which == 1);
  }
}

TEST_F(CrowdWatchTest, RefusalDespiteAHalfOpenSessionIsFound) {
  open(0, 7);
  open(1, 8);
  open(2, 9);
  watch.polled();
  ask(watch, 3, 10);
  refuse(3, wire::linux_errno::kEbusy);
  EXPECT_FALSE(judge.failed());
  ask(watch, 4, 10);
  refuse(4, wire::linux_errno::kEnomem);
  EXPECT_TRUE(fails(judge));
}

}  // namespace rtrs::sim::crowd_watch_test
