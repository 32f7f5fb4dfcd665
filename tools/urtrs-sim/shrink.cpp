#include "tools/urtrs-sim/shrink.hpp"

#include <cstdio>
#include <cstring>
#include <optional>

#include "sim/choices/grouped_choice.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/choice_log/choice_log_file.hpp"
#include "tools/lib/trace/choice_log/shrink_run.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"

namespace rtrs::sim_tool {

namespace {

nlohmann::ordered_json as_json(const sim::LogSize& size) {
  return {{"faults", size.faults},
          {"requests", size.requests},
          {"operations", size.operations},
          {"options", size.options},
          {"others", size.others}};
}

void print_numbers(const tools::ShrunkRun& run) {
  const sim::LogSize& before = run.shrunk.before;
  const sim::LogSize& after = run.shrunk.after;
  std::printf(
      "reduced %zu faults to %zu, %zu requests to %zu, %zu operations to %zu, %zu options to %zu, "
      "%zu delays and orders to %zu\n",
      before.faults, after.faults, before.requests, after.requests, before.operations, after.operations,
      before.options, after.options, before.others, after.others);
  std::printf("  %zu groups of %zu are left, %llu events of %llu; %llu runs in %.1f s%s\n", after.groups(),
              before.groups(), static_cast<unsigned long long>(run.last.events),
              static_cast<unsigned long long>(run.first.events),
              static_cast<unsigned long long>(run.shrunk.runs), run.seconds,
              run.shrunk.complete ? "" : "; more is possible with a longer --time");
  answer().update({{"signature", run.last.signature},
                   {"seen", run.last.seen},
                   {"before", as_json(run.shrunk.before)},
                   {"after", as_json(run.shrunk.after)},
                   {"runs", run.shrunk.runs},
                   {"complete", run.shrunk.complete}});
}

// Writes the choice log of the reduced run and prints its events. Returns false if the log cannot be written.
bool keep(tools::IsolatedRunner& runner, sim::WorldOptions world, const ShrinkCommand& given,
          const tools::ShrunkRun& run, const std::optional<sim::Scenario>& scenario) {
  const std::string out =
      given.out.empty() ? "urtrs-sim-" + std::to_string(world.seed) + ".choices" : given.out;
  if (const int error =
          tools::write_choice_log(out, {world.seed, run.last.signature, run.last.seen, run.shrunk.choice_log,
                                        scenario, world.over_tcp, world.make_net != nullptr})) {
    complain("cannot write " + out + ": " + std::strerror(error));
    return false;
  }
  std::printf("schedule:\n");
  world.verbose = true;
  runner.run(world, [&run]() -> std::unique_ptr<sim::ChoiceSource> {
    return std::make_unique<sim::GroupedChoice>(run.shrunk.choice_log);
  });
  answer()["choice_log"] = out;
  const std::string file = given.file.empty() ? "" : "--file " + given.file + " ";
  std::printf("choice log: %s\n  play it: urtrs-sim run %s--choices %s --verbose\n", out.c_str(),
              file.c_str(), out.c_str());
  return true;
}

tools::ShrinkRunOptions options_of(const ShrinkCommand& given, tools::ProgressLine& line) {
  tools::ShrinkRunOptions options;
  options.seconds = given.seconds;
  options.stopped = [] { return stopped_by != 0; };
  options.progress = [&line](const sim::LogSize& size, std::uint64_t runs) {
    line.show(std::to_string(runs) + " runs, " + std::to_string(size.faults) + " faults and " +
              std::to_string(size.groups()) + " groups left");
  };
  return options;
}

}  // namespace

int shrink_and_report(const ShrinkCommand& given) {
  OneRun which;
  if (!which.open(given)) return kUsage;
  const sim::WorldOptions& world = which.world;
  tools::IsolatedRunner runner;
  if (!runner.works()) {
    complain("no memory to share with the runs");
    return kUsage;
  }
  const StopSignals signals;
  tools::ProgressLine line;
  const tools::ShrinkRunOptions options = options_of(given, line);
  tools::ShrunkRun run = tools::shrink_run(runner, world, which.choice, options);
  // No oracle failed, so checks whether the run violates the specification.
  if (!run.first.failed && stopped_by == 0) {
    runner.ask_specification();
    run = tools::shrink_run(runner, world, which.choice, options);
  }
  line.clear();
  const auto seed = static_cast<unsigned long long>(world.seed);
  if (!run.first.failed && stopped_by != 0) return report_stopped("before a rule was broken");
  answer() = {{"command", "shrink"}, {"seed", world.seed}};
  if (!run.first.failed) {
    std::printf("ok seed=%llu: every rule held, nothing to shrink\n", seed);
    return kOk;
  }
  std::printf("FAIL seed=%llu %s t=%s\n  seen: %s\n", seed, run.last.signature.c_str(),
              sim::to_seconds(run.last.time).c_str(), run.last.seen.c_str());
  print_numbers(run);

  if (!keep(runner, world, given, run, which.scenario)) return kUsage;
  if (stopped_by != 0) return report_stopped("after " + std::to_string(run.shrunk.runs) + " runs");
  return run.first.stalled ? kNoProgress : kViolated;
}

}  // namespace rtrs::sim_tool
