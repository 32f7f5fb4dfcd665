// A process fails to get a resource (memory, a key, a connection). The process must then free its other
// resources, retry and work normally.
#include <gtest/gtest.h>

#include <string>

#include "core/driver/server.hpp"
#include "sim/scenarios/directed.hpp"
#include "sim/world/world.hpp"

namespace rtrs::sim::shortage_test {
namespace {

// Exceeds the number of resources that a node needs from the start of a session until its third path is
// connected: twelve connections, the session's memory, and a key per chunk.
constexpr std::uint32_t kResources = 48;

std::string run_with_shortage(std::uint32_t node, std::uint32_t resource, std::uint32_t count,
                              bool fresh_keys) {
  Setups setups;
  std::string why;
  const auto common = parse_scenarios(
      "scenario X\ncompleted number=30\nbreak_path\nconnected path=0\nconnected path=1", setups, why);
  ZeroChoice calm;
  Scenario scenario = world_of(common.value().front(), calm);
  scenario.faults_from_start = true;
  scenario.server.always_invalidate = fresh_keys;
  scenario.workload.own_region = true;
  Step shortage;
  shortage.verb = Step::Verb::shortage;
  shortage.client = node;
  shortage.number = resource;
  shortage.count = count;
  scenario.script.insert(scenario.script.begin(), shortage);
  WorldOptions options;
  options.seed = resource;
  options.scenario = &scenario;
  SeededChoice choice(resource);
  const WorldResult result = World(options, choice).run();
  return result.failed ? result.failure.text : std::string();
}

void expect_all_survived(std::uint32_t node) {
  for (const bool fresh_keys : {false, true})
    for (const std::uint32_t count : {1U, 3U})
      for (std::uint32_t resource = 0; resource < kResources; ++resource)
        EXPECT_EQ(run_with_shortage(node, resource, count, fresh_keys), "")
            << count << " from resource " << resource << " on, "
            << (fresh_keys ? "fresh keys" : "fixed keys");
}

TEST(Shortage, ClientSurvivesEachShortage) {
  expect_all_survived(1);
}

TEST(Shortage, ServerSurvivesEachShortage) {
  expect_all_survived(0);
}

TEST(Fit, ServerConfigIsReducedToTheCapabilities) {
  Capabilities fabric = default_capabilities();
  fabric.max_send_depth = 100;
  fabric.send_invalidate = false;
  fabric.imm_consumes_receive = false;
  ServerConfig wanted;
  wanted.send_depth = 1000;
  wanted.always_invalidate = true;
  const ServerConfig fitted = clamp_to(wanted, fabric);
  EXPECT_EQ(fitted.send_depth, 100);
  EXPECT_FALSE(fitted.send_invalidate);
  EXPECT_FALSE(fitted.imm_consumes_receive);
  EXPECT_TRUE(fitted.always_invalidate);  // listen() fails instead; this setting is never disabled silently
}

}  // namespace
}  // namespace rtrs::sim::shortage_test
