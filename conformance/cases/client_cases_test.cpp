// Runs every client case against the urtrs client in simulated time.
#include <gtest/gtest.h>

#include <iostream>

#include "conformance/cases/client_runner.hpp"
#include "conformance/cases/sim_bench.hpp"

namespace rtrs::conformance::client_cases_test {
namespace {

class ClientCasesTest : public testing::TestWithParam<bool> {};

TEST_P(ClientCasesTest, OurClientPassesAll) {
  SimBench bench(GetParam() ? sim::weak_capabilities() : sim::default_capabilities());
  ASSERT_EQ(bench.tester_fabric.listen(PathAddress{"", "n0.p0", 1234}), Errc::ok);
  Endpoint endpoint(bench.tester_fabric, bench);
  ASSERT_TRUE(endpoint.usable());
  ClientSetup setup;
  const SimClient client(bench, bench.peer_fabric);
  ClientRunner runner(endpoint, setup);
  ASSERT_EQ(runner.start(), "");
  unsigned passed = 0;
  for (const Case* one : cases(Role::client)) {
    const Result result = runner.run(*one);
    EXPECT_NE(result.outcome, Outcome::failed) << one->id << ": " << result.detail;
    passed += result.outcome == Outcome::passed ? 1 : 0;
    if (result.outcome == Outcome::not_run) std::cout << one->id << " not run: " << result.detail << '\n';
  }
  EXPECT_GE(passed, 40U);
  for (const sim::Violation& violation : bench.network.monitor().violations())
    ADD_FAILURE() << "law A" << violation.law << ": " << violation.text;
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ClientCasesTest, testing::Bool(),
                         [](const auto& one) { return std::string(one.param ? "like_sockets" : "rdma"); });

TEST(ClientRunnerTest, ClientMayCloseOneTrialSession) {
  SimBench bench(sim::default_capabilities());
  ASSERT_EQ(bench.tester_fabric.listen(PathAddress{"", "n0.p0", 1234}), Errc::ok);
  Endpoint endpoint(bench.tester_fabric, bench);
  SimClient client(bench, bench.peer_fabric);
  ClientRunner runner(endpoint, ClientSetup{});
  ASSERT_EQ(runner.start(), "");
  client.reopen_session();
  const Case& first = *cases(Role::client).front();
  const Result after_trial = runner.run(first);
  EXPECT_EQ(after_trial.outcome, Outcome::passed) << after_trial.detail;
  client.reopen_session();
  EXPECT_EQ(runner.run(first).outcome, Outcome::failed);
}

}  // namespace
}  // namespace rtrs::conformance::client_cases_test
