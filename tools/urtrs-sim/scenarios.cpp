#include "tools/urtrs-sim/scenarios.hpp"

#include <unistd.h>

#include <cstdio>

#include "tools/tapes/isolated_run.hpp"
#include "tools/urtrs-sim/report.hpp"

namespace rtrs::tools {

std::optional<sim::Scenario> directed_world(const std::string& id, std::uint64_t seed) {
  const sim::Directed* directed = sim::find_directed(id);
  if (directed == nullptr) {
    std::fprintf(stderr, "urtrs-sim: no scenario '%s'; urtrs-sim list prints them\n", id.c_str());
    return std::nullopt;
  }
  sim::SeededChoice choice(~seed);  // not those of the run
  return sim::make_directed(*directed, choice);
}

int play_scenarios(const SeedRange& seeds) {
  IsolatedRunner runner;
  if (!runner.works()) {
    std::fprintf(stderr, "urtrs-sim: no memory to share with the runs\n");
    return kUsage;
  }
  const auto all = sim::directed_scenarios();
  const bool tty = isatty(STDERR_FILENO) == 1;
  std::size_t done = 0;
  std::uint64_t failed = 0;
  for (const sim::Directed& one : all) {
    const std::string id(one.id);
    if (tty) std::fprintf(stderr, "\r\033[K%zu of %zu: %s", ++done, all.size(), id.c_str());
    for (std::uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
      sim::SeededChoice shape(~seed);
      const sim::Scenario scenario = sim::make_directed(one, shape);
      sim::WorldOptions options;
      options.seed = seed;
      options.scenario = &scenario;
      const IsolatedResult result =
          runner.run(options, [seed] { return std::make_unique<sim::SeededChoice>(seed); });
      if (!result.failed) continue;
      ++failed;
      if (tty) std::fprintf(stderr, "\r\033[K");
      std::printf("FAIL %s %s\n  seen: %s\n  reproduce: urtrs-sim run --scenario %s --seed %llu\n",
                  id.c_str(), result.signature.c_str(), result.seen.c_str(), id.c_str(),
                  static_cast<unsigned long long>(seed));
      break;
    }
  }
  if (tty) std::fprintf(stderr, "\r\033[K");
  std::printf("%zu scenarios with %llu seeds each, %llu failed\n", all.size(),
              static_cast<unsigned long long>(seeds.size()), static_cast<unsigned long long>(failed));
  return failed == 0 ? kOk : kViolated;
}

}  // namespace rtrs::tools
