// Runs every server case against the urtrs server in simulated time. planted_test.cpp shows that cases can
// fail.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "conformance/cases/server_runner.hpp"
#include "conformance/cases/sim_bench.hpp"

namespace rtrs::conformance::server_cases_test {
namespace {

struct Kind {
  const char* name;
  bool invalidate;
  bool weak;
  bool odd_depth;
};

class ServerCasesTest : public testing::TestWithParam<Kind> {};

TEST_P(ServerCasesTest, OurServerPassesAll) {
  const Kind& kind = GetParam();
  SimBench bench(kind.weak ? sim::weak_capabilities() : sim::default_capabilities());
  SimServer server(bench, [&kind](ServerConfig& config) {
    config.always_invalidate = kind.invalidate;
    if (!kind.odd_depth) config.queue_depth = 32;
  });
  const ServerSetup setup = server.setup();
  Endpoint endpoint(bench.tester_fabric, bench);
  ASSERT_TRUE(endpoint.usable());
  ServerRunner runner(endpoint, setup);
  ASSERT_EQ(runner.start(), "");
  unsigned passed = 0;
  for (const Case* one : cases(Role::server)) {
    const Result result = runner.run(*one);
    EXPECT_NE(result.outcome, Outcome::failed) << one->id << ": " << result.detail;
    passed += result.outcome == Outcome::passed ? 1 : 0;
    if (result.outcome == Outcome::not_run) std::cout << one->id << " not run: " << result.detail << '\n';
  }
  EXPECT_GE(passed, 60U);
  for (const sim::Violation& violation : bench.network.monitor().violations())
    ADD_FAILURE() << "law A" << violation.law << ": " << violation.text;
}

INSTANTIATE_TEST_SUITE_P(Servers, ServerCasesTest,
                         testing::Values(Kind{"plain", false, false, true}, Kind{"even", false, false, false},
                                         Kind{"fresh_keys", true, false, true},
                                         Kind{"like_sockets", false, true, true}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(CaseListTest, NumbersAreUniqueAndTextsAreNotEmpty) {
  std::set<std::string_view> numbers;
  for (const Role role : {Role::server, Role::client}) {
    for (const Case* one : cases(role)) {
      EXPECT_TRUE(numbers.insert(one->number()).second) << one->id;
      EXPECT_NE(std::string_view(one->title).find(": "), std::string_view::npos) << one->id;
      EXPECT_EQ(std::string_view(one->source).substr(0, 20), "protocol.md section ") << one->id;
    }
  }
}

}  // namespace
}  // namespace rtrs::conformance::server_cases_test
