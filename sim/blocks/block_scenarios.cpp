#include "sim/blocks/block_scenarios.hpp"

#include <algorithm>
#include <cerrno>

#include "sim/blocks/block_plays.hpp"
#include "sim/blocks/device_script.hpp"
#include "sim/blocks/random_blocks.hpp"

namespace rtrs::sim {

namespace {

using rnbd::DeviceState;

void refused_names(BlockWorld& w) {
  for (const char* name : {"nowhere", "a/../b", "../a", "a "}) {
    const std::int64_t handle = w.map(name);
    if (handle < 0) continue;
    const auto device = static_cast<DeviceHandle>(handle);
    w.until("the map ends", [&] { return w.state(device) == DeviceState::unmapped; });
    w.expect(w.refusal(device) == ENOENT, "with the errno of the server");
  }
  w.expect(w.map("") < 0 && w.map(std::string(255, 'x')) < 0, "an invalid name is refused at once");
  w.disk("b").writable = false;
  const auto denied = static_cast<DeviceHandle>(w.map("b"));
  w.until("the map ends", [&] { return w.state(denied) == DeviceState::unmapped; });
  w.expect(w.refusal(denied) == EPERM, "a write-protected disk refuses writes");
}

constexpr BlockScenario kScenarios[] = {
    {"R69",
     "missing names, names outside the folder, invalid names; a write-protected disk",
     {},
     refused_names},
    {kRandomBlocks, "random options, disks, load, faults and operators", {}, play_random_blocks, true},
};

}  // namespace

std::span<const BlockScenario> block_scenarios() {
  return kScenarios;
}

const BlockScenario* find_block_scenario(std::string_view id) {
  const auto all = block_scenarios();
  const auto found = std::find_if(all.begin(), all.end(), [id](const auto& one) { return one.id == id; });
  return found == all.end() ? nullptr : &*found;
}

Scenario make_block_world(const BlockScenario& scenario, ChoiceSource& choice) {
  Scenario s = block_world_of(scenario.random ? draw_block_options(choice) : scenario.options);
  drive(s, scenario);
  return s;
}

void drive(Scenario& world, const BlockScenario& scenario) {
  std::vector<DeviceScriptReader::Disk> disks = {{"a", kSectors}, {"b", kSectors}};
  if (scenario.random) disks.push_back({"c", kSectors});
  world.play = {std::string(scenario.id),
                [&scenario, disks](World& w) { play_disks(w, disks, scenario.play); }, true};
}

}  // namespace rtrs::sim
