// Tests that each time option of ClientConfig takes effect exactly at its deadline, to the nanosecond, for
// any heartbeat interval. An option without a case here fails the last test.
#include <set>
#include <string>

#include "core/proto/test_client_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::client_times_test {
namespace {

constexpr Nanos kTime = milliseconds(7300);  // not a multiple of the heartbeat interval

class TimesFixture;
struct Case {
  const char* option;
  Nanos ClientConfig::*field;
  void (TimesFixture::*begin)();          // brings the session to the start of the measured time
  bool (TimesFixture::*is_over)() const;  // true when the measured time has ended
};

class TimesFixture : public ClientSessionFixture {
 public:
  void attempt() { add_path(0); }
  void exchange_info() {
    add_path(0);
    for (std::uint16_t con = 0; con < session.config().con_num; ++con) feed(accepted(key(0, con)));
  }
  void ask_for_fence() {
    open(2);
    submit();
    const std::uint16_t path = only<PostRequest>().key.path;
    lose(path);
    drain(path);
  }
  void wait_for_path() {
    open(1);
    lose(0);
    drain(0);
    submit();
  }
  void close_with_request() {
    open(1);
    submit();
    feed(CloseRequested{now});
  }
  void fail_attempt(std::uint16_t peer_errno) {
    feed(ConnectFailed{now, key(0, 0), Reason::rejected, peer_errno});
    drain(0);
  }
  void fail_first_attempt() {
    add_path(0);
    fail_attempt(0);
  }
  // Lets connection attempts fail. Each delay is twice the previous one, until the maximum is reached.
  void fail_attempts() {
    add_path(0);
    for (unsigned attempt = 0; attempt < 8; ++attempt) {
      if (attempt != 0) feed(DeadlineReached{session.next_deadline()});
      fail_attempt(0);
    }
  }
  void refuse_as_busy() {
    add_path(0);
    fail_attempt(wire::linux_errno::kEbusy);
  }
  void lead_with_another() {
    add_path(0);
    add_path(1);
  }
  void leave_unanswered() {
    open(1);
    now += milliseconds(1234);
    submit();
  }

  bool path_is_lost() const { return session.path(0).state() == PathState::draining; }
  bool fence_is_asked() const { return !asked<SendFenceReq>().empty(); }
  bool request_has_failed() const { return !asked<Complete>().empty(); }
  bool path_closes() const { return session.path(0).state() == PathState::closing; }
  bool path_connects() const { return session.path(0).state() == PathState::connecting; }
  bool other_path_connects() const { return session.path(1).state() == PathState::connecting; }

 protected:
  static ClientConfig endless(Nanos heartbeat) {
    ClientConfig config = small_config();
    ClientConfig::visit_fields(config, [](const std::string& name, auto& field) {
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Nanos>)
        if (name != "seed") field = kNever;
    });
    config.reconnect_jitter = 0;
    config.heartbeat.interval = heartbeat;
    return config;
  }
  // Returns the time from begin() until is_over().
  Nanos measure(const Case& one) {
    actions.clear();
    (this->*one.begin)();
    const Nanos begin = now;
    actions.clear();
    for (unsigned step = 0; step < 100 && !(this->*one.is_over)(); ++step) {
      if (session.next_deadline() == kNever) return kNever;
      feed(DeadlineReached{session.next_deadline()});
      if ((this->*one.is_over)()) break;
      answer_heartbeats();
    }
    return (this->*one.is_over)() ? now - begin : kNever;
  }
  void answer_heartbeats() {
    for (const PostImm& post : asked<PostImm>()) {
      feed(ImmReceived{now, post.key, wire::encode_hb(wire::ImmType::hb_ack)});
      if (post.cookie != 0) feed(SendDone{now, post.key, post.cookie});
    }
  }
};

constexpr Case kCases[] = {
    {"connect_timeout", &ClientConfig::connect_timeout, &TimesFixture::attempt, &TimesFixture::path_is_lost},
    {"info_timeout", &ClientConfig::info_timeout, &TimesFixture::exchange_info, &TimesFixture::path_is_lost},
    {"fence_timeout", &ClientConfig::fence_timeout, &TimesFixture::ask_for_fence,
     &TimesFixture::fence_is_asked},
    {"queue_timeout", &ClientConfig::queue_timeout, &TimesFixture::wait_for_path,
     &TimesFixture::request_has_failed},
    {"close_timeout", &ClientConfig::close_timeout, &TimesFixture::close_with_request,
     &TimesFixture::path_closes},
    {"reconnect_min", &ClientConfig::reconnect_min, &TimesFixture::fail_first_attempt,
     &TimesFixture::path_connects},
    {"reconnect_max", &ClientConfig::reconnect_max, &TimesFixture::fail_attempts,
     &TimesFixture::path_connects},
    {"busy_retry", &ClientConfig::busy_retry, &TimesFixture::refuse_as_busy, &TimesFixture::path_connects},
    {"lead_head_start", &ClientConfig::lead_head_start, &TimesFixture::lead_with_another,
     &TimesFixture::other_path_connects},
    {"request_timeout", &ClientConfig::request_timeout, &TimesFixture::leave_unanswered,
     &TimesFixture::path_is_lost},
};

class ClientTimes : public TimesFixture, public testing::WithParamInterface<Nanos> {};
INSTANTIATE_TEST_SUITE_P(Heartbeats, ClientTimes, testing::Values(kNever, seconds(5), seconds(20)));

TEST_P(ClientTimes, EachOptionTakesEffectAtItsTime) {
  for (const Case& one : kCases) {
    ClientConfig config = endless(GetParam());
    if (one.field == &ClientConfig::reconnect_max) config.reconnect_min = milliseconds(100);
    config.*one.field = kTime;
    session = ClientSession(config);
    now = seconds(1000);
    EXPECT_EQ(measure(one), kTime) << one.option;
  }
}

// The delay is twice the jitter, so that the jitter is not limited.
TEST_F(TimesFixture, JitterIsAddedUpToTheOption) {
  Nanos longest = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    ClientConfig config = endless(kNever);
    config.seed = seed;
    config.reconnect_min = config.reconnect_max = 2 * kTime;
    config.reconnect_jitter = kTime;
    session = ClientSession(config);
    const Nanos time =
        measure({"", nullptr, &TimesFixture::fail_first_attempt, &TimesFixture::path_connects});
    ASSERT_GE(time, 2 * kTime);
    longest = std::max(longest, time - 2 * kTime);
  }
  EXPECT_LE(longest, kTime);
  EXPECT_GE(longest, kTime - kTime / 10);
}

TEST_F(TimesFixture, SilentPeerIsDeadWithinTheHeartbeatBounds) {
  ClientConfig config = endless(kTime);
  session = ClientSession(config);
  open(1);
  const Nanos begin = now;
  while (session.path(0).connected() && now - begin < seconds(1000))
    feed(DeadlineReached{session.next_deadline()});
  EXPECT_EQ(now - begin, (config.heartbeat.missed_max + 2) * kTime);
}

TEST(ClientTimesList, EveryTimeOptionHasACase) {
  std::set<std::string> without{"reconnect_jitter"};  // tested by JitterIsAddedUpToTheOption
  for (const Case& one : kCases) without.insert(one.option);
  const ClientConfig config;
  ClientConfig::visit_fields(config, [&](const std::string& name, const auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Nanos>) {
      if (name == "seed") return;
      EXPECT_EQ(without.erase(name), 1U) << name;
    }
  });
  EXPECT_TRUE(without.empty());
}

}  // namespace
}  // namespace rtrs::client_times_test
