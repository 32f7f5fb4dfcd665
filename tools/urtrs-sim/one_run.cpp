#include "tools/urtrs-sim/one_run.hpp"

#include "sim/choices/grouped_choice.hpp"
#include "tools/lib/trace/choice_log/choice_log_file.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/scenarios.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"
#include "tools/urtrs-sim/verbs_mock.hpp"

namespace rtrs::sim_tool {

bool OneRun::open(const RunName& name) {
  world.seed = name.seed;
  world.over_tcp = name.over_tcp;
  world.make_net = name.make_net;
  if (!name.scenario.empty()) {
    scenario = directed_world(name.scenario, name.seed);
    if (!scenario) return false;
    if (name.no_fence) sim::disable_fence(*scenario);
  }
  choice = [this] { return std::make_unique<sim::SeededChoice>(world.seed); };
  if (!name.choice_log.empty()) {
    const auto file = tools::read_choice_log(name.choice_log);
    if (!file) {
      complain(file.error());
      return false;
    }
    world.seed = file->seed;
    world.over_tcp = file->over_tcp;
    world.make_net = file->over_adapters ? verbs_mock() : nullptr;
    begin_ = file->choice_log;
    scenario = file->scenario;
    choice = [this] { return std::make_unique<sim::GroupedChoice>(begin_); };
  }
  if (scenario) world.scenario = &*scenario;
  return true;
}

tools::IsolatedResult play_judged(tools::IsolatedRunner& runner, const OneRun& run, bool& specification) {
  tools::IsolatedResult result = runner.run(run.world, run.choice);
  if (result.failed || stopped_by != 0) return result;
  specification = true;
  runner.ask_specification();
  return runner.run(run.world, run.choice);
}

}  // namespace rtrs::sim_tool
