#include "sim/world/story.hpp"

#include <algorithm>
#include <string>

#include "sim/world/world.hpp"

namespace rtrs::sim {

Scenario base_scenario(ChoiceSource& choice) {
  ZeroChoice calm;
  Scenario s = draw_scenario(calm);
  s.directed = true;
  s.paths = 2;
  s.client.con_num = 3;
  s.client.seed = choice.draw(1U << 30, Label::swarm);
  s.client.extensions = s.server.extensions = wire::kKnownExtensions & ~wire::Extensions::keys_stay;
  s.workload.requests = 40;
  s.workload.window = 4;
  s.workload.gap = s.interval / 10;
  return s;
}

void set_script(Scenario& s, Script script) {
  s.fenced = s.client.fence_failed == UnfencedReplay::wait &&
             (s.can_fence() || s.client.kernel_peer == UnfencedReplay::wait);
  s.script = std::move(script);
  Nanos waits = 0;
  for (const Step& step : s.script)
    if (step.verb == Step::Verb::pass) waits += step.time;
  if (s.safety < waits) s.safety = 0;
  s.safety += waits + 2 * liveness_bound(s).requests();
}

WorldResult play_story(const Story& story, std::string_view steps) {
  Script script;
  while (!steps.empty()) {
    const std::string_view line = steps.substr(0, steps.find('\n'));
    steps.remove_prefix(std::min(steps.size(), line.size() + 1));
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) continue;
    WorldResult refused;
    const std::optional<Step> step = parse_step(line.substr(begin), refused.failure.text);
    refused.failed = !step;
    if (refused.failed) return refused;
    script.push_back(*step);
  }
  SeededChoice shape(~story.seed);
  Scenario scenario = base_scenario(shape);
  scenario.clients = story.clients;
  scenario.paths = story.paths;
  scenario.workload.requests = story.requests;
  set_script(scenario, std::move(script));
  WorldOptions options;
  options.seed = story.seed;
  options.scenario = &scenario;
  options.over_tcp = story.over_tcp;
  SeededChoice choice(story.seed);
  return World(options, choice).run();
}

}  // namespace rtrs::sim
