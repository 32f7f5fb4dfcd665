// Tests directed worlds that are made from traces of clients with block devices: the devices must have the
// same history as in the trace.
#include "tools/lib/trace/to_scenario/device_story.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "sim/scenarios/directed.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/to_scenario/trace_to_scenario.hpp"

namespace rtrs::tools::device_story_test {
namespace {

using Verb = sim::Step::Verb;

// History of the devices while they were used: their state changes, and the number of IOs by result.
struct Ending {
  std::vector<std::string> changes;
  std::map<std::string, int> ios;
};

struct Recorded {
  LoadedTrace trace;
  const ClientInputs* session = nullptr;
  const ClientDevicesInputs* devices = nullptr;

  Ending ending() const {
    Ending found;
    std::size_t last_use = 0;
    for (std::size_t at = 0; at < devices->inputs.size(); ++at)
      if (event_if<trace::IoBegun>(devices->inputs[at]) != nullptr) last_use = at;
    std::string io;
    for (std::size_t at = 0; at < devices->inputs.size(); ++at) {
      if (const auto* done = event_if<trace::IoDone>(devices->inputs[at]))
        io = (done->ticket.nature.flushes   ? "flush "
              : done->ticket.nature.changes ? "change "
                                            : "read ") +
             std::to_string(done->peer_errno);
      const std::size_t end =
          at + 1 < devices->metas.size() ? devices->metas[at + 1].first_action : devices->actions.size();
      for (std::size_t one = devices->metas[at].first_action; one < end; ++one) {
        const auto* change = event_if<trace::DeviceChanged>(devices->actions[one]);
        if (change != nullptr && at <= last_use)
          found.changes.push_back(std::to_string(change->device) + " " + rnbd::to_string(change->state) +
                                  " " + std::to_string(change->peer_errno) + " " +
                                  std::to_string(change->geometry.nsectors));
        if (event_if<trace::IoJudged>(devices->actions[one]) != nullptr) ++found.ios[io];
      }
    }
    return found;
  }
};

class DeviceStoryTest : public ::testing::Test {
 protected:
  sim::WorldResult play(std::uint64_t seed, const sim::Scenario* scenario) {
    sim::WorldOptions options;
    options.seed = seed;
    options.scenario = scenario;
    options.trace = folder / "run";
    return sim::run_seed(options);
  }
  // Returns the trace of the client in the last run.
  Recorded recorded() {
    Recorded found;
    FILE* file = std::fopen((folder / "run.client1.rtrc").c_str(), "rb");
    trace::FdSource source(fileno(file));
    auto loaded = load_machines(source);
    std::fclose(file);
    EXPECT_TRUE(loaded.has_value());
    found.trace = std::move(*loaded);
    for (const MachineTrace& machine : found.trace.machines) {
      if (found.session == nullptr) found.session = std::get_if<ClientInputs>(&machine.machine);
      if (found.devices == nullptr) found.devices = std::get_if<ClientDevicesInputs>(&machine.machine);
    }
    return found;
  }
  // Runs `steps` with two disks, and returns the guesses that are made from the trace of this run.
  std::vector<Guess> told_by(const std::string& steps) {
    sim::Setups setups;
    std::string why;
    const auto directed = sim::parse_scenarios(
        "scenario X\nset paths=2 workload.disks=2 workload.requests=0 workload.disk_time=100us\n" + steps,
        setups, why);
    EXPECT_TRUE(directed.has_value()) << why;
    sim::SeededChoice choice(1);
    const sim::Scenario scenario = sim::world_of(directed->front(), choice);
    const sim::WorldResult result = play(1, &scenario);
    EXPECT_FALSE(result.failed) << result.failure.text;
    before = recorded();
    if (before.devices == nullptr) return {};
    return infer(*before.session, before.devices);
  }
  static std::vector<std::string> of(char device, std::vector<std::string> changes) {
    std::erase_if(changes, [device](const std::string& change) { return change.front() != device; });
    return changes;
  }
  // Runs the most faithful guess. The state changes of each device must begin with the state changes in the
  // trace. IOs must have the same results, and `shown` must be one of them.
  void expect_same_endings(const std::string& steps, const std::string& shown) {
    const std::vector<Guess> guesses = told_by(steps);
    ASSERT_FALSE(guesses.empty());
    const Ending was = before.ending();
    const sim::WorldResult result = play(2, &guesses.front().scenario);
    EXPECT_FALSE(result.failed) << result.failure.text;
    const Recorded after = recorded();
    ASSERT_NE(after.devices, nullptr);
    const Ending is = after.ending();
    ASSERT_FALSE(was.changes.empty());
    EXPECT_EQ(was.ios.count(shown), 1u) << ::testing::PrintToString(was.ios);
    // Two devices can change at the same time, in either order, so each device is compared separately.
    for (const char device : {'0', '1'}) {
      const std::vector<std::string> before_it = of(device, was.changes);
      const std::vector<std::string> after_it = of(device, is.changes);
      EXPECT_TRUE(before_it.size() <= after_it.size() &&
                  std::equal(before_it.begin(), before_it.end(), after_it.begin()))
          << ::testing::PrintToString(was.changes) << "\n"
          << ::testing::PrintToString(is.changes);
    }
    for (const auto& [how, count] : was.ios)
      EXPECT_GE(is.ios.count(how) != 0 ? is.ios.at(how) : 0, count) << how;
  }

  const ScratchFolder folder;
  Recorded before;
};

constexpr const char* kTakenAway =
    "map disk=0\nmap disk=1 read_only=1\npass time=1s\n"
    "disk_write disk=0 sectors=4 sector=8 fua=1\ndisk_read disk=1 sectors=2\ndisk_discard disk=0 "
    "sectors=3\ndisk_flush disk=0\n"
    "pass time=1s\nresize disk=0 sectors=40\ntake_away disk=0\ndisk_read disk=0 sectors=1 sector=16\n"
    "pass time=2s\nunmap disk=1\npass time=1s";

TEST_F(DeviceStoryTest, StepsMatchTheTrace) {
  const std::vector<Guess> guesses = told_by(kTakenAway);
  ASSERT_FALSE(guesses.empty());
  const sim::Scenario& world = guesses.front().scenario;
  EXPECT_EQ(world.workload.disks, 2u);
  EXPECT_EQ(world.workload.requests, 0u);
  std::map<Verb, int> count;
  for (const sim::Step& step : world.script) ++count[step.verb];
  EXPECT_EQ(count[Verb::map], 2);
  EXPECT_EQ(count[Verb::unmap], 1);
  EXPECT_EQ(count[Verb::take_away], 1);
  EXPECT_EQ(count[Verb::resize], 1);
  EXPECT_EQ(count[Verb::disk_write], 1);
  EXPECT_EQ(count[Verb::disk_discard], 1);
  EXPECT_GE(count[Verb::disk_read], 2) << "including the reads at the end of the run";
  EXPECT_EQ(count[Verb::write] + count[Verb::read], 0);
  const auto write = std::find_if(world.script.begin(), world.script.end(),
                                  [](const sim::Step& step) { return step.verb == Verb::disk_write; });
  EXPECT_EQ(write->number, 4u);
  EXPECT_EQ(write->value, 1u) << "FUA";
}

TEST_F(DeviceStoryTest, ResizedAndRemovedDeviceHasTheSameHistory) {
  expect_same_endings(kTakenAway, "read " + std::to_string(ENOTCONN));
}

TEST_F(DeviceStoryTest, RefusedDeviceHasTheSameHistory) {
  expect_same_endings(
      "forbid disk=0 number=1\nmap disk=0\nmap disk=1\npass time=1s\nforbid disk=0\nmap disk=0\npass "
      "time=1s\n"
      "disk_write disk=0 sectors=2\npass time=1s",
      "change 0");
}

TEST_F(DeviceStoryTest, LossOfAllPathsDuringIoHasTheSameHistory) {
  expect_same_endings(
      "map disk=0\npass time=1s\ndisk_write disk=0 sectors=8\nbreak_path path=0\nbreak_path "
      "path=1\nlink_down\n"
      "disk_write disk=0 sectors=8 sector=8\nlink_up\npass time=2s\ndisk_flush disk=0\npass time=1s",
      "flush 0");
}

TEST_F(DeviceStoryTest, FailedFlushHasTheSameHistory) {
  expect_same_endings(
      "map disk=0\npass time=1s\ndisk_write disk=0 sectors=8\npass time=1s\nfail_sync disk=0\ndisk_flush "
      "disk=0\n"
      "pass time=1s\ndisk_flush disk=0\npass time=1s",
      "flush " + std::to_string(EIO));
}

// One third of the random worlds has block devices.
TEST_F(DeviceStoryTest, WorldsOfPassingRunsPass) {
  unsigned worlds = 0;
  for (std::uint64_t seed = 0; seed < 200 && worlds < 3; ++seed) {
    sim::SeededChoice choice(seed);
    if (sim::draw_scenario(choice).workload.disks == 0) continue;
    EXPECT_FALSE(play(seed, nullptr).failed);
    const Recorded one = recorded();
    if (one.devices == nullptr || one.devices->inputs.size() < 40) continue;
    ++worlds;
    ScenarioSearch options;
    options.seeds = 2;
    const FoundScenario found = find_scenario(one.trace, options);
    EXPECT_EQ(found.error, "");
    EXPECT_FALSE(found.fails) << "seed " << seed << ": " << found.words << ": " << found.run.last.seen;
    EXPECT_GE(found.tried, 4u);
  }
  EXPECT_EQ(worlds, 3u);
}

}  // namespace
}  // namespace rtrs::tools::device_story_test
