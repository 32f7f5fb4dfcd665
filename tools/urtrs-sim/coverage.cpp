#include "tools/urtrs-sim/coverage.hpp"

#include <cstdio>
#include <map>
#include <sstream>

#include "core/proto/actions.hpp"
#include "tools/lib/files/read_bounded.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/scenarios.hpp"

namespace rtrs::sim_tool {

namespace {

using Rare = std::map<std::string, std::string>;  // mark -> scenario that must reach it

bool read_rare(const std::string& path, Rare& rare) {
  if (path.empty()) return true;
  constexpr std::size_t kMost = 1;  // MiB
  const auto text = tools::read_bounded(path, kMost);
  if (!text) {
    complain("cannot read " + path + ": " + text.error());
    return false;
  }
  std::istringstream file(*text);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string mark;
    std::string scenario;
    if (!(words >> mark)) continue;
    if (!(words >> scenario) || scenarios_of(scenario).empty()) {
      complain(path + ": " + mark + " needs a scenario that reaches it");
      return false;
    }
    rare[mark] = scenario;
  }
  return true;
}

// Returns true if at least one seed of the scenario reaches the mark.
bool reached_by(const std::string& id, unsigned mark) {
  constexpr std::uint64_t kSeeds = 20;
  for (const std::string& one : scenarios_of(id))
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto scenario = directed_world(one, seed);
      sim::WorldOptions options;
      options.seed = seed;
      options.scenario = &*scenario;
      sim::SeededChoice choice(seed);
      if (sim::World(options, choice).run().marks[mark]) return true;
    }
  return false;
}

unsigned print_marks(const SweepTotals& totals, const Rare& rare) {
  unsigned missing = 0;
  answer()["command"] = "coverage";
  answer()["seeds"] = totals.seeds;
  auto& marks = answer()["marks"] = nlohmann::ordered_json::array();
  std::printf("marks (seeds of %llu that passed through):\n", static_cast<unsigned long long>(totals.seeds));
  for (unsigned mark = 0; mark < sim::kMarks; ++mark) {
    const auto which = static_cast<sim::Mark>(mark);
    std::printf("  %8llu  %-24s %s", static_cast<unsigned long long>(totals.marks[mark]), sim::name_of(which),
                sim::text_of(which));
    marks.push_back(
        {{"mark", sim::name_of(which)}, {"text", sim::text_of(which)}, {"seeds", totals.marks[mark]}});
    const auto listed = rare.find(sim::name_of(which));
    if (listed != rare.end()) {
      const bool reached = reached_by(listed->second, mark);
      std::printf(reached ? " (rare: scenario %s)" : " NOT REACHED by scenario %s", listed->second.c_str());
      missing += reached ? 0 : 1;
    } else if (totals.marks[mark] == 0) {
      std::printf(" NOT REACHED");
      ++missing;
    }
    std::printf("\n");
  }
  return missing;
}

// Prints only the faults that strike at drawn times. Faults that strike single messages are not printed here,
// because they are counted as marks.
unsigned print_faults(const SweepTotals& totals, bool streams) {
  unsigned missing = 0;
  auto& faults = answer()["faults"] = nlohmann::ordered_json::object();
  std::printf("timed faults (strikes):\n");
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault) {
    const auto which = static_cast<sim::FaultClass>(fault);
    if (sim::kind_of(which).strike == nullptr) continue;
    faults[sim::to_string(which)] = totals.faults[fault];
    const bool elsewhere = sim::kind_of(which).streams_only && !streams;
    const bool struck = totals.faults[fault] != 0;
    std::printf("  %8llu  %-24s %s%s\n", static_cast<unsigned long long>(totals.faults[fault]),
                sim::to_string(which), sim::text_of(which),
                elsewhere ? " (with --fabric tcp)" : (struck ? "" : " NEVER STRUCK"));
    missing += struck || elsewhere ? 0 : 1;
  }
  return missing;
}

void print_pairs(const SweepTotals& totals) {
  // States that a server path can have; a server path is never `waiting`.
  constexpr PathState kServer[] = {PathState::absent, PathState::connecting, PathState::connected,
                                   PathState::closing};
  std::printf("simultaneous states of the two ends of a path (seeds; client down, server across):\n  %-11s",
              "");
  for (const PathState server : kServer) std::printf("%11s", to_string(server));
  std::printf("\n");
  unsigned reached = 0;
  auto& pairs = answer()["pairs"] = nlohmann::ordered_json::array();
  for (unsigned client = 0; client < sim::kPathStates; ++client) {
    std::printf("  %-11s", to_string(static_cast<PathState>(client)));
    for (const PathState server : kServer) {
      const std::uint64_t count = totals.pairs[client][static_cast<unsigned>(server)];
      reached += count != 0 ? 1 : 0;
      pairs.push_back({{"client", to_string(static_cast<PathState>(client))},
                       {"server", to_string(server)},
                       {"seeds", count}});
      if (count == 0)
        std::printf("%11s", "never");
      else
        std::printf("%11llu", static_cast<unsigned long long>(count));
    }
    std::printf("\n");
  }
  std::printf("%u of %zu pairs reached\n", reached, std::size(kServer) * sim::kPathStates);
}

}  // namespace

int coverage(const SweepOptions& given, const std::string& rare_file) {
  Rare rare;
  if (!read_rare(rare_file, rare)) return kUsage;
  for (const auto& [mark, scenario] : rare) {
    bool known = false;
    for (unsigned at = 0; at < sim::kMarks; ++at)
      known = known || sim::name_of(static_cast<sim::Mark>(at)) == mark;
    if (!known) {
      complain(rare_file + ": no mark '" + mark + "'");
      return kUsage;
    }
  }
  SweepOptions options = given;
  options.summary = false;
  options.determinism_percent = 0;
  SweepTotals totals;
  const int code = sweep(options, &totals);
  if (code != kOk) return code;
  const unsigned missing = print_marks(totals, rare) + print_faults(totals, options.over_tcp);
  answer()["missing"] = missing;
  print_pairs(totals);
  std::printf("%u marks and faults not reached\n", missing);
  return missing == 0 ? kOk : kViolated;
}

}  // namespace rtrs::sim_tool
