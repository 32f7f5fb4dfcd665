#include "tools/urtrs-sim/scenarios.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "sim/oracles/digest.hpp"
#include "tools/lib/files/read_bounded.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/choice_log/isolated_run.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"
#include "tools/urtrs-sim/version_comment.hpp"

namespace rtrs::sim_tool {

namespace {

struct Failed {
  std::uint64_t seed = 0;
  tools::IsolatedResult result;
};

// Returns true if the result is the expected one: every rule holds, or exactly the expected oracle fails.
bool as_expected(const sim::Directed& one, const tools::IsolatedResult& result) {
  const std::string expect = one.text != nullptr ? one.text->expect : std::string();
  if (expect.empty()) return !result.failed;
  return result.failed && result.signature.substr(0, result.signature.find(' ')) == expect;
}

void count_run(SweepResult& sum, std::uint64_t seed, const tools::IsolatedResult& run) {
  sum.hash += sim::mix(seed ^ run.hash);
  for (auto& [name, count] : sum.counts) {
    if (name == "runs") ++count;
    if (name == "events") count += run.events;
  }
}

// The signature of a crash contains the last words of the process, which `seen` has, too.
FoundFailure found_failure(std::string_view id, std::uint64_t seed, const tools::IsolatedResult& run) {
  std::string rule = run.failed ? run.signature : "no failure";
  if (rule.starts_with("signal ")) rule.resize(std::min(rule.find(' ', 7), rule.size()));
  return {seed, std::string(id), rule, run.seen};
}

// Returns nothing with ScenarioOptions::result, which takes all failures.
std::optional<Failed> first_failure(tools::IsolatedRunner& runner, const sim::Directed& one,
                                    const ScenarioOptions& given) {
  for (std::uint64_t seed = given.seeds.first; seed < given.seeds.end && stopped_by == 0; ++seed) {
    sim::SeededChoice shape(~seed);
    sim::Scenario scenario = sim::make_directed(one, shape);
    if (given.no_fence) sim::disable_fence(scenario);
    sim::WorldOptions options;
    options.seed = seed;
    options.scenario = &scenario;
    tools::IsolatedResult result =
        runner.run(options, [seed] { return std::make_unique<sim::SeededChoice>(seed); });
    if (given.result != nullptr) count_run(*given.result, seed, result);
    if (as_expected(one, result)) continue;
    if (!result.failed) result.seen = "every rule holds, and " + one.text->expect + " should fail";
    if (given.result != nullptr) {
      given.result->failures.add(found_failure(one.id, seed, result));
      continue;
    }
    return Failed{seed, std::move(result)};
  }
  return std::nullopt;
}

void no_such(const std::string& id) {
  std::vector<std::string> ids;
  for (const sim::Directed& one : sim::directed_scenarios()) ids.emplace_back(one.id);
  const std::string near = tools::nearest_word(id, ids);
  complain("no scenario '" + tools::printable(tools::shortened(id)) + "'; " +
           (near.empty() ? "" : "did you mean '" + near + "'? ") + "`urtrs-sim list` prints them");
}

// Selects the scenarios with the given ids. Returns false after printing an error if an id is unknown.
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

std::optional<std::vector<std::string>> load_scenarios(const std::string& path) {
  constexpr std::size_t kMost = 1;  // MiB
  const auto text = tools::read_bounded(path, kMost);
  if (!text) {
    complain("cannot read " + path + ": " + text.error());
    return std::nullopt;
  }
  std::vector<std::string> ids;
  const std::string why = sim::add_scenarios(*text, ids);
  if (why.empty() && !ids.empty()) return ids;
  complain(path + ": " +
           (why.empty() ? "no scenario in it; docs/simulation.md has the format"
                        : why + "; `urtrs-sim list --steps` has all options and steps"));
  return std::nullopt;
}

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
  sim::SeededChoice choice(~seed);  // seed of the shape, which differs from the seed of the run's choices
  return sim::make_directed(*directed, choice);
}

int play_scenarios(const ScenarioOptions& given) {
  tools::IsolatedRunner runner;
  if (!runner.works()) {
    complain("no memory to share with the runs");
    return kUsage;
  }
  runner.ask_specification();
  std::vector<const sim::Directed*> all;
  if (!chosen(given.only, all)) return kUsage;
  const StopSignals signals;
  tools::ProgressLine line;
  std::size_t done = 0;
  const auto show = [&](std::string_view id) {
    line.show(tools::progress_text(++done, all.size(), "scenarios", 0) + ": " + std::string(id));
  };
  std::uint64_t failures = 0;
  answer() = {{"command", "scenarios"},
              {"scenarios", all.size()},
              {"seeds", given.seeds.size()},
              {"failed", nlohmann::ordered_json::array()}};
  for (const sim::Directed* one : all) {
    const std::string id(one->id);
    if (stopped_by != 0) break;
    show(id);
    const auto failed = first_failure(runner, *one, given);
    if (!failed) continue;
    ++failures;
    line.clear();
    const std::string again = "urtrs-sim run " + (given.file.empty() ? "" : "--file " + given.file + " ") +
                              "--scenario " + id + " --seed " + std::to_string(failed->seed) +
                              (given.no_fence ? " --no-fence" : "");
    answer()["failed"].push_back({{"id", id},
                                  {"signature", failed->result.signature},
                                  {"seen", failed->result.seen},
                                  {"seed", failed->seed},
                                  {"reproduce", again}});
    std::printf("FAIL %s %s\n  seen: %s\n  reproduce: %s  %s\n", id.c_str(), failed->result.signature.c_str(),
                failed->result.seen.c_str(), again.c_str(), version_comment().c_str());
  }
  line.clear();
  const std::uint64_t seeds = given.seeds.size();
  if (stopped_by != 0) {
    const int code = report_stopped("in number " + std::to_string(done) + " of " +
                                    std::to_string(all.size()) + " scenarios, " + std::to_string(failures) +
                                    " failed" + (given.result == nullptr ? "" : kNoResult));
    return failures == 0 ? code : kViolated;
  }
  if (given.result != nullptr) return kOk;
  std::printf("%zu scenario%s with %llu seed%s%s, %llu failed\n", all.size(), all.size() == 1 ? "" : "s",
              static_cast<unsigned long long>(seeds), seeds == 1 ? "" : "s", all.size() == 1 ? "" : " each",
              static_cast<unsigned long long>(failures));
  return failures == 0 ? kOk : kViolated;
}

}  // namespace rtrs::sim_tool
