#include "sim/scenarios/directed.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/assert.hpp"
#include "sim/scenarios/directed_tables.hpp"

namespace rtrs::sim {

namespace {

// Two paths of three connections, a heartbeat a second, eight permits, some load; nothing goes wrong by
// itself.
Scenario common(ChoiceSource& choice) {
  CalmChoice calm;
  Scenario s = draw_scenario(calm);
  s.directed = true;
  s.paths = 2;
  s.client.con_num = 3;
  s.client.seed = choice.draw(1U << 30, Label::swarm);
  s.client.extensions = s.server.extensions = 7;
  s.workload.requests = 40;
  s.workload.window = 4;
  s.workload.gap = s.interval / 10;
  return s;
}

}  // namespace

std::span<const Directed> directed_scenarios() {
  static const std::vector<Directed> all = [] {
    std::vector<Directed> joined;
    for (const auto& table :
         {connecting_scenarios(), failover_scenarios(), permit_scenarios(), load_scenarios(),
          teardown_scenarios(), process_scenarios(), silence_scenarios(), shortage_scenarios(),
          lying_client_scenarios(), lying_server_scenarios()})
      joined.insert(joined.end(), table.begin(), table.end());
    for (const BlockScenario& one : block_scenarios())
      joined.push_back({one.id, one.title, nullptr, "", &one});
    std::sort(joined.begin(), joined.end(), [](const Directed& a, const Directed& b) { return a.id < b.id; });
    return joined;
  }();
  return all;
}

const Directed* find_directed(std::string_view id) {
  const auto all = directed_scenarios();
  const auto found = std::find_if(all.begin(), all.end(), [id](const Directed& one) { return one.id == id; });
  return found == all.end() ? nullptr : &*found;
}

Scenario make_directed(const Directed& directed, ChoiceSource& choice) {
  if (directed.blocks != nullptr) return make_block_world(*directed.blocks, choice);
  Scenario s = common(choice);
  if (directed.shape != nullptr) directed.shape(s, choice);
  s.fenced = s.client.fence_failed == UnfencedReplay::wait &&
             (s.can_fence() || s.client.kernel_peer == UnfencedReplay::wait);
  std::string why;
  Nanos waits = 0;
  for (std::string_view rest = directed.script; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty()) continue;
    const auto step = parse_step(line, why);
    // A table of this program.
    RTRS_ASSERT(step.has_value());
    if (step->verb == Step::Verb::pass) waits += step->time;
    s.script.push_back(*step);
  }
  if (s.safety == 0 || s.safety < waits) s.safety = 0;
  s.safety += waits + 2 * liveness_bound(s).requests();
  return s;
}

}  // namespace rtrs::sim
