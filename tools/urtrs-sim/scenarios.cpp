#include "tools/urtrs-sim/scenarios.hpp"

#include <cctype>
#include <cstdio>

#include "tools/lib/choice_log/isolated_run.hpp"
#include "tools/lib/terminal/progress_line.hpp"
#include "tools/urtrs-sim/report.hpp"

namespace rtrs::tools {

namespace {

struct Failed {
  std::uint64_t seed = 0;
  IsolatedResult result;
};

std::optional<Failed> first_failure(IsolatedRunner& runner, const sim::Directed& one,
                                    const ScenarioOptions& given) {
  for (std::uint64_t seed = given.seeds.first; seed < given.seeds.end; ++seed) {
    sim::SeededChoice shape(~seed);
    sim::Scenario scenario = sim::make_directed(one, shape);
    if (given.no_fence) sim::take_fence_away(scenario);
    sim::WorldOptions options;
    options.seed = seed;
    options.scenario = &scenario;
    IsolatedResult result = runner.run(options, [seed] { return std::make_unique<sim::SeededChoice>(seed); });
    if (result.failed) return Failed{seed, std::move(result)};
  }
  return std::nullopt;
}

void no_such(const std::string& id) {
  std::fprintf(stderr, "urtrs-sim: no scenario '%s'; urtrs-sim list prints them\n", id.c_str());
}

// False, and a word on stderr, when one of the ids stands for nothing.
bool chosen(const std::string& only, std::vector<const sim::Directed*>& out) {
  if (only.empty()) {
    for (const sim::Directed& one : sim::directed_scenarios()) out.push_back(&one);
  }
  for (std::size_t at = 0; at < only.size();) {
    const std::size_t comma = std::min(only.find(',', at), only.size());
    const std::string id = only.substr(at, comma - at);
    at = comma + 1;
    const auto ids = scenarios_of(id);
    if (ids.empty()) {
      no_such(id);
      return false;
    }
    for (const std::string& one : ids) out.push_back(sim::find_directed(one));
  }
  return true;
}

}  // namespace

std::vector<std::string> scenarios_of(const std::string& id) {
  std::vector<std::string> found;
  std::vector<std::string_view> names;
  for (const sim::Directed& one : sim::directed_scenarios()) names.push_back(one.id);
  for (const std::string_view name : names) {
    if (name == id) return {id};
    const bool of_it = name.size() == id.size() + 1 && name.starts_with(id) && !id.empty() &&
                       std::isdigit(static_cast<unsigned char>(id.back())) != 0 &&
                       std::islower(static_cast<unsigned char>(name.back())) != 0;
    if (of_it) found.emplace_back(name);
  }
  return found;
}

std::optional<sim::Scenario> directed_world(const std::string& id, std::uint64_t seed) {
  const sim::Directed* directed = sim::find_directed(id);
  if (directed == nullptr) {
    no_such(id);
    return std::nullopt;
  }
  sim::SeededChoice choice(~seed);  // not those of the run
  return sim::make_directed(*directed, choice);
}

int play_scenarios(const ScenarioOptions& given) {
  IsolatedRunner runner;
  if (!runner.works()) {
    std::fprintf(stderr, "urtrs-sim: no memory to share with the runs\n");
    return kUsage;
  }
  runner.ask_specification();
  std::vector<const sim::Directed*> all;
  if (!chosen(given.only, all)) return kUsage;
  ProgressLine line;
  std::size_t done = 0;
  const auto show = [&](std::string_view id) {
    line.show(how_far(++done, all.size(), "scenarios", 0) + ": " + std::string(id));
  };
  std::uint64_t failures = 0;
  for (const sim::Directed* one : all) {
    const std::string id(one->id);
    show(id);
    const auto failed = first_failure(runner, *one, given);
    if (!failed) continue;
    ++failures;
    line.clear();
    std::printf("FAIL %s %s\n  seen: %s\n  reproduce: urtrs-sim run --scenario %s --seed %llu%s\n",
                id.c_str(), failed->result.signature.c_str(), failed->result.seen.c_str(), id.c_str(),
                static_cast<unsigned long long>(failed->seed), given.no_fence ? " --no-fence" : "");
  }
  line.clear();
  std::printf("%zu scenarios with %llu seeds each, %llu failed\n", all.size(),
              static_cast<unsigned long long>(given.seeds.size()), static_cast<unsigned long long>(failures));
  return failures == 0 ? kOk : kViolated;
}

}  // namespace rtrs::tools
