#include "backends/platform/address/host_names.hpp"

#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace rtrs::net::host_names_test {
namespace {

constexpr Nanos kLong = seconds(3600);

// A fake name service whose answers the test controls.
class Service {
 public:
  struct Answer {
    int code = 0;
    const char* address = "10.0.0.1";
  };
  // Sets the answer for later queries of this host.
  void answer(const std::string& host, Answer with) {
    const std::lock_guard lock(inner_->mutex);
    inner_->answers[host] = with;
    inner_->changed.notify_all();
  }
  void stop_answering(const std::string& host) {
    const std::lock_guard lock(inner_->mutex);
    inner_->answers.erase(host);
  }
  FindHost find() {
    return [inner = inner_](const std::string& host, std::vector<SocketAddress>& result) {
      std::unique_lock lock(inner->mutex);
      inner->changed.wait(lock, [&] { return inner->over || inner->answers.count(host) != 0; });
      if (inner->over) return EAI_AGAIN;
      const Answer with = inner->answers[host];
      if (with.code == 0) result = {*parse_address(with.address, 0)};
      return with.code;
    };
  }
  ~Service() {
    const std::lock_guard lock(inner_->mutex);
    inner_->over = true;
    inner_->changed.notify_all();
  }

 private:
  struct Inner {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, Answer> answers;
    bool over = false;
  };
  std::shared_ptr<Inner> inner_ = std::make_shared<Inner>();
};

std::vector<std::uint64_t> wait_and_take(HostNames& names) {
  pollfd wait{names.wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 60'000), 1);
  return names.take();
}

std::string first(const std::vector<SocketAddress>& list) {
  return list.empty() ? "none" : to_text(list.front());
}

using Tickets = std::vector<std::uint64_t>;

TEST(HostNames, numeric_addresses_are_not_queried) {
  HostNames names([](const std::string&, std::vector<SocketAddress>&) -> int { abort(); });
  EXPECT_FALSE(names.ask(1, {"ip:10.0.0.1", "[::1]:7", "", "gid:fe80::1"}));
  EXPECT_EQ(first(names.addresses("10.0.0.1:9", 7)), "10.0.0.1:9");
  EXPECT_TRUE(names.addresses("gid:fe80::1", 7).empty());
  EXPECT_EQ(names.unresolved_reason("10.0.0.1:"), "\"10.0.0.1:\" is not an address");
}

TEST(HostNames, names_get_the_answer_of_the_name_service) {
  Service service;
  HostNames names(service.find(), {kLong, kLong});
  EXPECT_TRUE(names.ask(1, {"ip:a:9", "10.0.0.7"}));
  EXPECT_TRUE(names.ask(2, {"b"}));
  EXPECT_EQ(names.take(), Tickets{});
  EXPECT_TRUE(names.addresses("a", 7).empty());
  service.answer("a", {.address = "10.0.0.3"});
  EXPECT_EQ(wait_and_take(names), Tickets{1});
  EXPECT_EQ(first(names.addresses("a:9", 7)), "10.0.0.3:9");
  EXPECT_EQ(first(names.addresses("ip:a", 7)), "10.0.0.3:7");
  service.answer("b", {.code = EAI_NONAME});
  EXPECT_EQ(wait_and_take(names), Tickets{2});
  EXPECT_TRUE(names.addresses("b", 7).empty());
  EXPECT_FALSE(names.is_silent("b"));
  EXPECT_EQ(names.unresolved_reason("b"), "no host has the name \"b\"");
}

TEST(HostNames, an_attempt_ends_while_the_name_service_is_silent) {
  Service service;
  HostNames names(service.find(), {.first = 0, .newer = 0});
  EXPECT_TRUE(names.ask(1, {"a"}));
  EXPECT_EQ(wait_and_take(names), Tickets{1});
  EXPECT_TRUE(names.is_silent("a"));
  EXPECT_EQ(names.unresolved_reason("a"), "the name service (DNS) does not answer for \"a\"");
}

TEST(HostNames, the_last_answer_is_used_while_the_name_service_is_silent) {
  Service service;
  service.answer("a", {.address = "10.0.0.3"});
  HostNames names(service.find(), {.first = kLong, .newer = 0});
  EXPECT_TRUE(names.ask(1, {"a"}));
  EXPECT_EQ(wait_and_take(names), Tickets{1});
  service.stop_answering("a");
  EXPECT_TRUE(names.ask(2, {"a"}));
  EXPECT_EQ(wait_and_take(names), Tickets{2});
  EXPECT_EQ(first(names.addresses("a", 7)), "10.0.0.3:7");
  // A failed query keeps the known addresses; the answer "no such host" removes them.
  service.answer("a", {.code = EAI_AGAIN});
  wait_and_take(names);
  EXPECT_EQ(first(names.addresses("a", 7)), "10.0.0.3:7");
  service.answer("a", {.code = EAI_NONAME});
  EXPECT_TRUE(names.ask(3, {"a"}));
  while (!names.addresses("a", 7).empty()) wait_and_take(names);
  EXPECT_EQ(names.unresolved_reason("a"), "no host has the name \"a\"");
}

TEST(HostNames, an_attempt_with_a_new_name_has_the_longer_time_limit) {
  Service service;
  service.answer("known", {});
  HostNames names(service.find(), {.first = kLong, .newer = 0});
  EXPECT_TRUE(names.ask(1, {"known"}));
  EXPECT_EQ(wait_and_take(names), Tickets{1});
  EXPECT_TRUE(names.ask(2, {"new", "known"}));
  EXPECT_TRUE(names.ask(3, {"known", "new"}));
  EXPECT_EQ(names.take(), Tickets{});
}

TEST(HostNames, time_limits_hold_while_many_names_are_pending) {
  Service service;
  HostNames names(service.find(), {.first = 0, .newer = 0});
  Tickets all;
  for (std::uint64_t i = 0; i < 600; ++i) {
    EXPECT_TRUE(names.ask(i, {"host" + std::to_string(i)}));
    all.push_back(i);
  }
  EXPECT_EQ(wait_and_take(names), all);
}

TEST(HostNames, a_forgotten_ticket_is_not_reported) {
  Service service;
  HostNames names(service.find(), {kLong, kLong});
  EXPECT_TRUE(names.ask(1, {"a"}));
  EXPECT_TRUE(names.ask(2, {"a"}));
  names.forget(1);
  service.answer("a", {});
  EXPECT_EQ(wait_and_take(names), Tickets{2});
}

// While it exists, no thread can be started: sets a stack size larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    ::pthread_attr_setstacksize(&huge, std::size_t{1} << 60U);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST(HostNames, NextAttemptQueriesANameThatHadNoThread) {
  Service service;
  service.answer("a", {});
  HostNames names(service.find(), {kLong, kLong});
  {
    const NoThreads none;
    ASSERT_TRUE(names.ask(1, {"a"}));
  }
  names.forget(1);
  ASSERT_TRUE(names.ask(2, {"a"}));
  pollfd answer{names.wait_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&answer, 1, 60'000), 1) << "no thread was started";
  EXPECT_EQ(names.take(), std::vector<std::uint64_t>{2});
  EXPECT_EQ(names.addresses("a", 1).size(), 1U);
}

TEST(HostNames, DisabledLookupsQueryNothing) {
  bool asked = false;
  HostNames names([&asked](const std::string&, std::vector<SocketAddress>&) {
    asked = true;
    return 0;
  });
  EXPECT_TRUE(names.asks());
  names.disable_lookups();
  EXPECT_FALSE(names.asks());
  EXPECT_FALSE(names.ask(1, {"storage1", "10.0.0.1"}));
  EXPECT_TRUE(names.addresses("storage1", 7).empty());
  EXPECT_FALSE(names.is_silent("storage1"));
  EXPECT_NE(names.unresolved_reason("storage1").find("not a numeric address"), std::string::npos);
  EXPECT_EQ(first(names.addresses("10.0.0.1", 7)), "10.0.0.1:7");
  EXPECT_FALSE(asked);
}

}  // namespace
}  // namespace rtrs::net::host_names_test
