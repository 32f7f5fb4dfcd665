// Checks that every directed scenario runs without breaking a rule, and that its script does not change when
// it is written and parsed.
#include "sim/scenarios/directed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "sim/world/world.hpp"

namespace rtrs::sim::directed_test {
namespace {

void plays(const Directed& one, std::uint64_t seed, bool over_tcp = false) {
  SeededChoice shape(~seed);
  const Scenario scenario = make_directed(one, shape);
  WorldOptions options;
  options.seed = seed;
  options.scenario = &scenario;
  options.over_tcp = over_tcp;
  SeededChoice choice(seed);
  const WorldResult result = World(options, choice).run();
  EXPECT_FALSE(result.failed) << one.id << " seed " << seed << (over_tcp ? " over streams: " : ": ")
                              << result.failure.text;
}

TEST(Directed, NoScenarioViolatesARule) {
  for (const Directed& one : directed_scenarios()) {
    for (std::uint64_t seed = 0; seed < 2; ++seed) plays(one, seed);
  }
}

// In these seeds, the load ends before the last path connects, and a path drains for more than three seconds.
TEST(Directed, ScriptsFitSlowSeeds) {
  plays(*find_directed("TD07"), 15);
  plays(*find_directed("TD16"), 17);
}

// In these seeds a waiting client gets no reply, or only part of a reply.
TEST(Directed, RareSeedsOfStreamsPass) {
  for (const std::uint64_t seed : {1278, 1502, 2374}) plays(*find_directed("TS01"), seed);
}

// True for scenarios with a misbehaving peer that can run on the TCP fabric, which uses TLS instead of shared
// keys.
bool has_misbehaving_peer(const Directed& one) {
  ZeroChoice calm;
  const Scenario scenario = make_directed(one, calm);
  return scenario.liar != kNone && !scenario.keys;
}

// Scenarios that work only on queue pairs. On a stream, the end whose memory is accessed wrongly reports a
// protocol violation; on queue pairs both ends see only a failed connection, and most of these scenarios wait
// for that. R49b: the connection has already ended when the world looks up its owner. F08b waits for retries
// of an adapter. L14b delays the disconnect message, which streams do not have.
bool is_of_queue_pairs(const Directed& one) {
  constexpr std::array<std::string_view, 9> kIds{"F08b", "HS04", "HS09", "L14b", "L16j",
                                                 "L16k", "R49b", "R66d", "R66e"};
  return std::find(kIds.begin(), kIds.end(), one.id) != kIds.end();
}

// Runs the real TCP fabric between a misbehaving peer and a peer that must detect the violation.
TEST(Directed, MisbehavingPeersAreDetectedOverStreams) {
  unsigned peers = 0;
  for (const Directed& one : directed_scenarios()) {
    if (!has_misbehaving_peer(one) || is_of_queue_pairs(one)) continue;
    ++peers;
    for (std::uint64_t seed = 0; seed < 2; ++seed) plays(one, seed, true);
  }
  EXPECT_GE(peers, 80U);
}

TEST(Directed, IdsAreUnique) {
  std::set<std::string_view> ids;
  for (const Directed& one : directed_scenarios()) EXPECT_TRUE(ids.insert(one.id).second) << one.id;
  EXPECT_GE(ids.size(), 150u);
  EXPECT_NE(find_directed("L01a"), nullptr);
  EXPECT_EQ(find_directed("L01"), nullptr);
}

TEST(Directed, ScenarioThatCannotBePlayedFails) {
  Setups setups;
  std::string why;
  const auto never = parse_scenarios("scenario X\nconnected\ndelivered number=100000", setups, why);
  ASSERT_TRUE(never) << why;
  ZeroChoice calm;
  const Scenario scenario = world_of(never->front(), calm);
  WorldOptions options;
  options.scenario = &scenario;
  const WorldResult result = World(options, calm).run();
  EXPECT_TRUE(result.failed);
  EXPECT_TRUE(result.script_stuck);
  EXPECT_NE(result.failure.text.find("step 2 of the scenario never came: delivered number=100000"),
            std::string::npos)
      << result.failure.text;
}

TEST(Script, StepsSurviveWritingAndParsing) {
  std::string why;
  for (const Directed& one : directed_scenarios()) {
    ZeroChoice calm;
    for (const Step& step : make_directed(one, calm).script) {
      const auto again = parse_step(to_text(step), why);
      ASSERT_TRUE(again.has_value()) << why;
      EXPECT_EQ(*again, step) << to_text(step);
    }
  }
}

TEST(Script, TimesHaveUnits) {
  std::string why;
  EXPECT_EQ(parse_step("pass time=40s", why)->time, seconds(40));
  EXPECT_EQ(parse_step("storage number=1 time=5ms length=7us", why)->length, microseconds(7));
  EXPECT_EQ(parse_step("pass time=12ns", why)->time, 12u);
  EXPECT_EQ(parse_step("slow time=0", why)->time, 0u);
  EXPECT_EQ(parse_step("write number=1 sector=12", why)->time, 12u);
  EXPECT_FALSE(parse_step("pass time=12", why));
  EXPECT_FALSE(parse_step("write number=1 sector=12s", why));
}

TEST(Script, InvalidStepsAreRefusedWithAReason) {
  const auto refused = [](std::string_view line) {
    std::string why;
    return parse_step(line, why) ? std::string("accepted") : why;
  };
  EXPECT_EQ(refused("explode path=1"), "unknown verb 'explode'");
  EXPECT_EQ(refused("cut path"), "not understood: 'path'");
  EXPECT_EQ(refused("cut road=1"), "cut takes no 'road=1'; it takes client= path= ways=");
  EXPECT_EQ(refused("map con=1"), "map takes no 'con=1'; it takes client= disk= read_only=");
  EXPECT_EQ(refused("spared path=1"), "spared takes no 'path=1'");
  EXPECT_EQ(refused("cut path=-1"), "not understood: 'path=-1'");
  EXPECT_EQ(refused("cut path=5s"), "not understood: 'path=5s'");
  EXPECT_EQ(refused("pass time=99999999999999999999s"),
            "not understood: 'time=99999999999999999999s'; a time has a unit: s, ms, us or ns");
  EXPECT_EQ(refused("rate number=99 per_million=1"), "unknown rate");
}

}  // namespace
}  // namespace rtrs::sim::directed_test
