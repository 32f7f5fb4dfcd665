// Worlds made from traces of simulated clients.
#include "tools/lift/lift.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "core/trace/scratch_folder.hpp"

namespace rtrs::tool {
namespace {

LoadedTrace trace_of(std::uint64_t seed, const std::string& directory) {
  sim::WorldOptions options;
  options.seed = seed;
  options.trace = directory + "/run";
  const sim::WorldResult result = sim::run_seed(options);
  EXPECT_FALSE(result.failed) << result.failure.text;
  FILE* file = std::fopen((options.trace + ".client1.trace").c_str(), "rb");
  trace::FdSource source(fileno(file));
  auto trace = load_machines(source);
  std::fclose(file);
  EXPECT_TRUE(trace.has_value()) << (trace ? "" : trace.error());
  return trace ? *trace : LoadedTrace{};
}

class LiftTest : public ::testing::Test {
 protected:
  const trace::ScratchFolder folder;
  const std::string directory = folder.path().string();
};

TEST_F(LiftTest, TheWorldHasWhatTheClientHad) {
  const LoadedTrace trace = trace_of(3, directory);
  ASSERT_FALSE(trace.machines.empty());
  const auto& client = std::get<MachineInputs<ClientConfig, ClientInput>>(trace.machines[0].machine);
  const auto guesses = infer(client);
  ASSERT_GE(guesses.size(), 2u);
  const sim::Scenario& world = guesses[0].scenario;
  EXPECT_EQ(world.client.con_num, client.config.con_num);
  EXPECT_TRUE(world.directed);
  std::size_t submitted = 0;
  for (const ClientInput& input : client.inputs)
    submitted += std::holds_alternative<Submitted>(input) ? 1 : 0;
  std::size_t requests = 0;
  for (const sim::Step& step : world.script)
    requests += step.verb == sim::Step::Verb::write || step.verb == sim::Step::Verb::read ? 1 : 0;
  EXPECT_EQ(requests, submitted);
}

TEST_F(LiftTest, WorldsOfSoundRunsAreSound) {
  for (const std::uint64_t seed : {3u, 14u}) {
    LiftOptions options;
    options.seeds = 3;
    const Lifted lifted = lift(trace_of(seed, directory), options);
    EXPECT_EQ(lifted.error, "");
    EXPECT_FALSE(lifted.fails) << "seed " << seed << ": " << lifted.words << ": " << lifted.run.last.seen;
    EXPECT_GE(lifted.tried, 6u);
  }
}

}  // namespace
}  // namespace rtrs::tool
