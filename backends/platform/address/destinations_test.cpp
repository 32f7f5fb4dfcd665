#include "backends/platform/address/destinations.hpp"

#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>

#include "backends/platform/address/address_list.hpp"

namespace rtrs::net::destinations_test {
namespace {

constexpr Nanos kLong = seconds(3600);

// A name service that answers at once with the addresses in `answer`.
struct Names {
  std::vector<const char*> answer;
  Destinations destinations{parse_address,
                            [this](const std::string&, std::vector<SocketAddress>& found) {
                              for (const char* text : answer) found.push_back(*parse_address(text, 0));
                              return answer.empty() ? EAI_NONAME : 0;
                            },
                            {kLong, kLong}};

  // Returns the route of a connection, after resolving host names if needed.
  tl::expected<Destinations::Route, Destinations::Failure> route(ConKey key, const PathAddress& path,
                                                                 unsigned address) {
    if (destinations.ask(key, path, address)) {
      // wait_fd() becomes readable after each answered name; the lookup is complete after the last one.
      std::vector<Destinations::Ready> ready;
      do {
        pollfd wait{destinations.wait_fd(), POLLIN, 0};
        if (::poll(&wait, 1, 60'000) != 1) break;
        ready = destinations.take();
      } while (ready.empty());
      EXPECT_EQ(ready.size(), 1U);
      if (ready.size() == 1) {
        EXPECT_EQ(ready.front().key, key);
      }
    }
    return destinations.route(key, path, address);
  }
  std::string to(ConKey key, const PathAddress& path, unsigned address) {
    const auto found = route(key, path, address);
    return found ? to_text(found->to) : found.error().text;
  }
};

ConKey con(std::uint16_t con, std::uint32_t epoch, std::uint16_t path = 0) {
  return {path, con, epoch};
}

TEST(Destinations, TheIndexChoosesTheAddressOfAName) {
  Names names{.answer = {"fd00::1", "10.0.0.1"}};
  const PathAddress path{"", "storage1", 7};
  EXPECT_EQ(names.to(con(0, 1), path, 0), "[fd00::1]:7");
  EXPECT_EQ(names.to(con(0, 2), path, 1), "10.0.0.1:7");
  EXPECT_EQ(names.to(con(0, 3), path, 2), "[fd00::1]:7");
  const auto route = names.route(con(0, 4), path, 0);
  EXPECT_EQ(route->count, 2);
  EXPECT_TRUE(route->is_choice(con(0, 4)));
  EXPECT_FALSE(route->is_choice(con(1, 4)));
}

TEST(Destinations, NumericAddressesOfferNoChoice) {
  Names names;
  const auto route = names.route(con(0, 1), {"", "10.0.0.1", 7}, 5);
  EXPECT_EQ(to_text(route->to), "10.0.0.1:7");
  EXPECT_FALSE(route->is_choice(con(0, 1)));
}

TEST(Destinations, AllConnectionsOfAnAttemptUseTheAddressOfTheFirst) {
  Names names{.answer = {"10.0.0.1", "10.0.0.2"}};
  const PathAddress path{"", "storage1", 7};
  EXPECT_EQ(names.to(con(0, 1), path, 1), "10.0.0.2:7");
  names.answer = {"10.0.0.8", "10.0.0.9"};
  EXPECT_FALSE(names.destinations.ask(con(1, 1), path, 1));
  EXPECT_EQ(names.to(con(1, 1), path, 1), "10.0.0.2:7");
  // The next attempt resolves the name again, and so does another path.
  EXPECT_EQ(names.to(con(0, 2), path, 1), "10.0.0.9:7");
  EXPECT_EQ(names.to(con(0, 1, 1), path, 0), "10.0.0.8:7");
}

TEST(Destinations, TheSourceDeterminesTheFamily) {
  Names names{.answer = {"fd00::1", "10.0.0.1", "fd00::2"}};
  EXPECT_EQ(names.to(con(0, 1), {"10.0.0.5", "storage1", 7}, 0), "10.0.0.1:7");
  const auto six = names.route(con(0, 2), {"fd00::5", "storage1", 7}, 1);
  EXPECT_EQ(to_text(six->to), "[fd00::2]:7");
  EXPECT_EQ(six->count, 2);
  const auto none = names.route(con(0, 3), {"10.0.0.5", "fd00::1", 7}, 0);
  EXPECT_EQ(none.error().reason, Reason::source_unavailable);
  // If the source is a host name, its address has the same family as the destination.
  const auto both = names.route(con(0, 4), {"here", "storage1", 7}, 1);
  EXPECT_EQ(to_text(both->to), "10.0.0.1:7");
  EXPECT_EQ(to_text(both->from), "10.0.0.1:0");
}

TEST(Destinations, ErrorNamesAHostWithoutAddresses) {
  Names names;
  const auto route = names.route(con(0, 1), {"", "storage1", 7}, 0);
  EXPECT_EQ(route.error().reason, Reason::name_unresolved);
  EXPECT_FALSE(route.error().silent);
  EXPECT_EQ(route.error().text, "no host has the name \"storage1\"");
}

// The name service has answered, so another lookup would not help.
TEST(Destinations, SourceNameOfTheOtherFamilyIsUnavailable) {
  Names names{.answer = {"10.0.0.1"}};
  const auto route = names.route(con(0, 1), {"here", "fd00::1", 7}, 0);
  EXPECT_EQ(route.error().reason, Reason::source_unavailable);
  EXPECT_FALSE(route.error().silent);
}

TEST(Destinations, UnknownInterfacesAreNotResolvedAsNames) {
  Names names{.answer = {"10.0.0.1"}};
  const PathAddress path{"", "fe80::1%nosuch", 7};
  EXPECT_FALSE(names.destinations.ask(con(0, 1), path, 0));
  EXPECT_NE(names.to(con(0, 1), path, 0).find("no network interface \"nosuch\""), std::string::npos);
}

TEST(Destinations, ForgottenConnectionsAreNotReported) {
  Names names{.answer = {"10.0.0.1"}};
  EXPECT_TRUE(names.destinations.ask(con(0, 1), {"", "a", 7}, 0));
  EXPECT_TRUE(names.destinations.ask(con(0, 1, 1), {"", "a", 7}, 0));
  names.destinations.forget(con(0, 1));
  std::vector<Destinations::Ready> ready;
  while (ready.empty()) {
    pollfd wait{names.destinations.wait_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&wait, 1, 60'000), 1);
    ready = names.destinations.take();
  }
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready.front().key, con(0, 1, 1));
}

}  // namespace
}  // namespace rtrs::net::destinations_test
