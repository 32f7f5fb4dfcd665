// Tests directed worlds that are made from traces of simulated clients.
#include "tools/lib/trace/to_scenario/trace_to_scenario.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <cstdio>
#include <filesystem>
#include <string>

#include "sim/scenarios/directed.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::tools::trace_to_scenario_test {
namespace {

LoadedTrace trace_of(std::uint64_t seed, const std::string& directory,
                     const sim::Scenario* scenario = nullptr) {
  sim::WorldOptions options;
  options.seed = seed;
  options.scenario = scenario;
  options.trace = directory + "/run";
  const sim::WorldResult result = sim::run_seed(options);
  EXPECT_FALSE(result.failed) << result.failure.text;
  FILE* file = std::fopen((options.trace + ".client1.rtrc").c_str(), "rb");
  trace::FdSource source(fileno(file));
  auto trace = load_machines(source);
  std::fclose(file);
  EXPECT_TRUE(trace.has_value()) << (trace ? "" : trace.error());
  return trace ? *trace : LoadedTrace{};
}

class LiftTest : public ::testing::Test {
 protected:
  const ScratchFolder folder;
  const std::string directory = folder.path().string();
};

TEST_F(LiftTest, WorldHasTheConfigurationAndRequestsOfTheTrace) {
  const LoadedTrace trace = trace_of(3, directory);
  ASSERT_FALSE(trace.machines.empty());
  const auto session =
      std::find_if(trace.machines.begin(), trace.machines.end(),
                   [](const MachineTrace& one) { return std::holds_alternative<ClientInputs>(one.machine); });
  ASSERT_NE(session, trace.machines.end());
  const auto& client = std::get<ClientInputs>(session->machine);
  const auto guesses = infer(client);
  ASSERT_GE(guesses.size(), 2u);
  const sim::Scenario& world = guesses[0].scenario;
  EXPECT_EQ(world.client.con_num, client.config.con_num);
  EXPECT_TRUE(world.directed);
  EXPECT_EQ(world.server.extensions,
            wire::Extensions::fence | wire::Extensions::generation | wire::Extensions::probe);
  std::size_t submitted = 0;
  for (const ClientInput& input : client.inputs)
    submitted += std::holds_alternative<Submitted>(input) ? 1 : 0;
  std::size_t requests = 0;
  for (const sim::Step& step : world.script)
    requests += step.verb == sim::Step::Verb::write || step.verb == sim::Step::Verb::read ? 1 : 0;
  EXPECT_EQ(requests, submitted);
}

TEST_F(LiftTest, WorldsOfPassingRunsPass) {
  for (const std::uint64_t seed : {3u, 8u}) {
    ScenarioSearch options;
    options.seeds = 3;
    const FoundScenario found = find_scenario(trace_of(seed, directory), options);
    EXPECT_EQ(found.error, "");
    EXPECT_FALSE(found.fails) << "seed " << seed << ": " << found.words << ": " << found.run.last.seen;
    EXPECT_GE(found.tried, 6u);
  }
}

// The address of one path is wrong: its server does not know the session of the other paths.
TEST_F(LiftTest, PathToAnotherServerIsReproduced) {
  sim::Setups setups;
  std::string why;
  const auto directed = sim::parse_scenarios(
      "scenario X\nset paths=2 other_server=true workload.requests=30 workload.gap=100ms\ncompleted "
      "number=20\n"
      "remove path=2\ncompleted number=30",
      setups, why);
  ASSERT_TRUE(directed.has_value()) << why;
  sim::SeededChoice choice(1);
  const sim::Scenario scenario = sim::world_of(directed->front(), choice);
  const LoadedTrace trace = trace_of(1, directory, &scenario);
  const auto guesses = infer(std::get<ClientInputs>(trace.machines[0].machine));
  ASSERT_FALSE(guesses.empty());
  EXPECT_TRUE(guesses[0].scenario.other_server);
  EXPECT_EQ(guesses[0].scenario.paths, 2u);
  ScenarioSearch options;
  options.seeds = 2;
  const FoundScenario found = find_scenario(trace, options);
  EXPECT_EQ(found.error, "");
  EXPECT_FALSE(found.fails) << found.words << ": " << found.run.last.seen;
}

// A world in which the server crashes and restarts twice while requests are in flight.
sim::Scenario two_outages(std::uint64_t seed) {
  sim::Setups setups;
  std::string why;
  const auto directed = sim::parse_scenarios(
      "scenario X\nset workload.requests=1500 workload.gap=10ms\n"
      "completed number=400\ncrash client=0\nlink_down\npass time=2s\nrestart client=0\nlink_up\n"
      "completed number=900\ncrash client=0\nlink_down\npass time=2s\nrestart client=0\nlink_up\n"
      "completed number=1400",
      setups, why);
  sim::SeededChoice choice(seed);
  return sim::world_of(directed.value().front(), choice);
}

TEST_F(LiftTest, WorldWithMoreRequestsThanFitItsTimePasses) {
  const sim::Scenario scenario = two_outages(1);
  const LoadedTrace trace = trace_of(1, directory, &scenario);
  ScenarioSearch options;
  options.seeds = 1;
  options.seconds = 600;
  const FoundScenario found = find_scenario(trace, options);
  EXPECT_EQ(found.error, "");
  EXPECT_FALSE(found.fails) << found.words << ": " << found.run.last.seen;
  EXPECT_TRUE(found.sound) << found.why;
  EXPECT_EQ(found.tried, 3u) << "guesses: losses as recorded, rough network, server crashes";
}

// Storage never completes, and the application submits more requests than it has buffers.
TEST_F(LiftTest, BacklogWithoutProgressFails) {
  sim::Scenario scenario = two_outages(1);
  scenario.workload.requests = 0;
  scenario.script.clear();
  std::string why;
  scenario.script.push_back(*sim::parse_step("storage number=64 time=900000s length=900000s", why));
  for (int i = 0; i < 64; ++i) scenario.script.push_back(*sim::parse_step("write number=1", why));
  sim::WorldOptions options;
  options.seed = 1;
  options.scenario = &scenario;
  const sim::WorldResult result = sim::run_seed(options);
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.failure.oracle, sim::Oracle::liveness);
  EXPECT_NE(result.failure.text.find("that wait begins"), std::string::npos) << result.failure.text;
}

}  // namespace
}  // namespace rtrs::tools::trace_to_scenario_test
