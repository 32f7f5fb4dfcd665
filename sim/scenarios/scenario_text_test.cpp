// Scenarios as text: what is read, what is refused and in which words.
#include "sim/scenarios/scenario_text.hpp"

#include <gtest/gtest.h>

#include "sim/cluster/world.hpp"
#include "sim/scenarios/directed.hpp"

namespace rtrs::sim {
namespace {

std::vector<ScenarioText> read(std::string_view text) {
  Setups setups;
  std::string why;
  auto all = parse_scenarios(text, setups, why);
  EXPECT_TRUE(all) << why;
  return all ? std::move(*all) : std::vector<ScenarioText>{};
}
std::string refusal(std::string_view text) {
  Setups setups;
  std::string why;
  return parse_scenarios(text, setups, why) ? "accepted" : why;
}

TEST(ScenarioText, SetupsApplyInTheirOrderAndBeforeWhatTheScenarioSets) {
  const auto all = read(
      "setup busy\n set workload.requests=200 workload.gap=50us\n"
      "setup three: busy\n\tset paths=3\n\n# a comment\n"
      "scenario X1: three\n  title what it is: busy\n  set paths=4 client.policy=min-latency\n"
      "  cut path=1\r\n  completed number=100\n"
      "scenario X2\n expect O9");
  ASSERT_EQ(all.size(), 2u);
  CalmChoice calm;
  const Scenario s = world_of(all[0], calm);
  EXPECT_EQ(s.paths, 4u);
  EXPECT_EQ(s.workload.requests, 200u);
  EXPECT_EQ(s.workload.gap, microseconds(50));
  EXPECT_EQ(s.client.policy, MultipathPolicy::min_latency);
  ASSERT_EQ(s.script.size(), 2u);
  EXPECT_EQ(to_text(s.script[0]), "cut path=1");
  EXPECT_EQ(all[0].title, "what it is: busy");
  EXPECT_EQ(all[1].expect, "O9");
  EXPECT_EQ(world_of(all[1], calm).paths, 2u);
}

TEST(ScenarioText, WhatIsWrongIsSaidWithItsLine) {
  EXPECT_EQ(refusal("cut path=1"), "line 1: a scenario begins with 'scenario ID'");
  EXPECT_EQ(refusal("scenario"), "line 1: a name without blanks is missing");
  EXPECT_EQ(refusal("scenario A B"), "line 1: a name without blanks is missing");
  EXPECT_EQ(refusal("scenario A: none"), "line 1: no setup 'none' above");
  EXPECT_EQ(refusal("scenario A\nset pahts=2"), "line 2: no option 'pahts'");
  EXPECT_EQ(refusal("scenario A\nset paths"), "line 2: not NAME=VALUE: 'paths'");
  EXPECT_EQ(refusal("scenario A\nset paths=many"), "line 2: 'many' is no value of paths");
  EXPECT_EQ(refusal("scenario A\nset paths=-1"), "line 2: '-1' is no value of paths");
  EXPECT_EQ(refusal("scenario A\nset workload.gap=99999999999999999999s"),
            "line 2: '99999999999999999999s' is no value of workload.gap");
  EXPECT_EQ(refusal("scenario A\nset workload.gap=18446744073709551615s"),
            "line 2: '18446744073709551615s' is no value of workload.gap");
  EXPECT_EQ(refusal("scenario A\nset paths=9"), "A: \"paths\" of the scenario is out of range");
  EXPECT_EQ(refusal("setup a\nset paths=9\nscenario B: a"),
            "line 3: a: \"paths\" of the scenario is out of range");
  EXPECT_EQ(refusal("setup a\ncut path=1"), "line 2: a setup has nothing but lines that begin with 'set'");
  EXPECT_EQ(refusal("scenario A\n\n\nexplode"), "line 4: no verb 'explode'");
  EXPECT_EQ(refusal("scenario A\nexpect miracles"),
            "line 2: 'expect' is followed by ok or the id of an oracle");
  EXPECT_EQ(refusal("scenario A\nscenario A"), "line 2: a scenario 'A' is there already");
}

TEST(ScenarioText, TimesHaveUnitsOrAreNever) {
  const auto all = read("scenario A\nset client.queue_timeout=never workload.gap=0 client.close_timeout=2s");
  CalmChoice calm;
  const Scenario s = world_of(all.at(0), calm);
  EXPECT_EQ(s.client.queue_timeout, kNever);
  EXPECT_EQ(s.workload.gap, 0u);
  EXPECT_EQ(s.client.close_timeout, seconds(2));
}

TEST(ScenarioText, TheIdsOfTheProgramAreTaken) {
  std::vector<std::string> ids;
  EXPECT_EQ(add_scenarios("scenario L01a\n", ids), "a scenario 'L01a' is there already");
  EXPECT_EQ(add_scenarios("scenario MyOwn: busy\n title mine\n completed number=10\n", ids), "");
  EXPECT_EQ(ids, std::vector<std::string>{"MyOwn"});
  const Directed* mine = find_directed("MyOwn");
  ASSERT_NE(mine, nullptr);
  CalmChoice calm;
  const Scenario scenario = make_directed(*mine, calm);
  WorldOptions options;
  options.scenario = &scenario;
  EXPECT_FALSE(World(options, calm).run().failed);
}

}  // namespace
}  // namespace rtrs::sim
