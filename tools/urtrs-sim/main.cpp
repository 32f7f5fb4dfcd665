// urtrs-sim: runs simulations and checks that every rule holds. Exit codes: 0 success, 1 a rule was broken, 2
// usage error, 4 no progress, 5 the same seed gave two different runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "backends/options/quantity.hpp"
#include "sim/scenarios/scenario_text.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/text/usage/command_line_error.hpp"
#include "tools/lib/text/usage/help.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/arguments.hpp"
#include "tools/urtrs-sim/artifacts.hpp"
#include "tools/urtrs-sim/blame.hpp"
#include "tools/urtrs-sim/coverage.hpp"
#include "tools/urtrs-sim/examples.hpp"
#include "tools/urtrs-sim/explore.hpp"
#include "tools/urtrs-sim/histories.hpp"
#include "tools/urtrs-sim/ledger_command.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/result_command.hpp"
#include "tools/urtrs-sim/scenarios.hpp"
#include "tools/urtrs-sim/shrink.hpp"
#include "tools/urtrs-sim/sweep.hpp"

namespace {

using namespace rtrs::sim_tool;
using namespace rtrs::tools;

int report_wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = command_line_error(app, error);  // "urtrs-sim: ...\n"
  complain(text.substr(app.get_name().size() + 2, text.size() - app.get_name().size() - 3));
  return kUsage;
}

// Loads the scenarios of --file. They become the default scenarios, unless a choice log is given. Returns
// false after printing an error if the file cannot be loaded or the choice is ambiguous.
bool use_file(Arguments& given, const CLI::App& command) {
  if (given.file.empty()) return true;
  const auto ids = load_scenarios(given.file);
  if (!ids) return false;
  std::string all;
  for (const std::string& id : *ids) all += (all.empty() ? "" : ",") + id;
  if (command.get_name() == "scenarios") {
    if (given.only.empty()) given.only = all;
  } else if (given.scenario.empty() && given.choice_log.empty()) {
    given.scenario = all;
    if (ids->size() != 1) usage("choose with --scenario one of " + all);
    return ids->size() == 1;
  }
  return true;
}

// Checks that exactly one run is specified. Returns 0, or an exit code after printing an error.
int check_which(const Arguments& given) {
  if (given.seed.empty() && given.choice_log.empty())
    return usage(given.scenario.empty() ? "give --seed N or --choices FILE"
                                        : "give --seed N with --scenario");
  if (!given.seed.empty() && !given.choice_log.empty())
    return usage("--seed excludes --choices: a choice log has its seed; leave one of them out");
  if (given.no_fence && given.scenario.empty())
    return usage("--no-fence is for scenarios; a choice log already sets the fence on or off");
  return kOk;
}

// `name`: base name of the files that --artifacts writes.
int run_one(const Arguments& given, const ReportOptions& options, const std::string& name) {
  return given.artifacts.empty() ? run_and_report(options)
                                 : run_with_artifacts(options, given.artifacts, name);
}

int run(const Arguments& given) {
  if (const int code = check_which(given)) return code;
  std::optional<rtrs::sim::FaultFilter> filter;
  std::string why;
  if (!parse_filter(given, filter, why)) return usage(why);
  if (filter && (!given.choice_log.empty() || !given.scenario.empty()))
    return usage("--without and --only-faults are for seeds");
  ReportOptions options;
  options.trace = given.trace;
  options.verbose = given.verbose;
  options.page = given.page;
  if (!given.choice_log.empty()) {
    options.choice_log = given.choice_log;
    return run_one(given, options, std::filesystem::path(given.choice_log).stem().string());
  }
  const auto range = parse_seed_range(given.seed);
  if (!range || range->size() != 1) return wrong_seed(given.seed);
  options.seed = range->first;
  options.over_tcp = over_tcp(given);
  options.make_net = make_net(given);
  const std::string number = std::to_string(options.seed);
  if (given.scenario.empty()) {
    options.filter = filter ? &*filter : nullptr;
    return run_one(given, options, "urtrs-sim-" + number);
  }
  options.no_fence = given.no_fence;
  auto ids = scenarios_of(given.scenario);
  if (ids.empty()) ids.push_back(given.scenario);
  if (ids.size() > 1 && !given.page.empty())
    return usage("--page is for one scenario; choose one of " + CLI::detail::join(ids, ", "));
  int code = kOk;
  auto runs = nlohmann::ordered_json::array();
  for (const std::string& id : ids) {
    if (ids.size() > 1) std::printf("%s: ", id.c_str());
    options.scenario = id;
    answer().clear();
    const int one = run_one(given, options, "urtrs-sim-" + id + "-" + number);
    runs.push_back(answer());
    if (code == kOk) code = one;
  }
  if (ids.size() > 1) answer() = {{"command", "run"}, {"runs", std::move(runs)}};
  return code;
}

// Returns false after printing an error.
bool name_run(const Arguments& given, RunName& name) {
  name.scenario = given.scenario;
  name.file = given.file;
  name.choice_log = given.choice_log;
  name.no_fence = given.no_fence;
  name.over_tcp = over_tcp(given);
  name.make_net = make_net(given);
  if (given.seed.empty()) return true;
  const auto range = parse_seed_range(given.seed);
  if (!range || range->size() != 1) return wrong_seed(given.seed), false;
  name.seed = range->first;
  return true;
}

// Reads --time into `seconds`, unless it was not given. Returns false after printing an error.
bool read_time(const Arguments& given, double& seconds) {
  if (given.time.empty()) return true;
  const auto time = rtrs::options::parse_positive_duration(given.time);
  if (!time) return usage("--time: " + time.error()), false;
  seconds = static_cast<double>(*time) / 1e9;
  return true;
}

int shrink(const Arguments& given) {
  if (const int code = check_which(given)) return code;
  ShrinkCommand command;
  command.out = given.out;
  if (!name_run(given, command) || !read_time(given, command.seconds)) return kUsage;
  return shrink_and_report(command);
}

int blame(const Arguments& given) {
  if (const int code = check_which(given)) return code;
  BlameCommand command;
  command.points = given.points;
  command.redraws = given.redraws;
  command.page = given.page;
  command.jobs = given.jobs;
  return name_run(given, command) ? blame_and_report(command) : kUsage;
}

int scenarios(const Arguments& given) {
  const auto range = parse_seed_range(given.scenario_seeds);
  if (!range) return wrong_seeds(given.scenario_seeds);
  const ScenarioOptions options{*range, given.only, given.no_fence, given.file};
  return given.result.empty() ? play_scenarios(options) : scenarios_to_result(given, options);
}

// Runs the sweep from the position in the state file, and prints the command that continues it later.
int sweep_from_state(const Arguments& given, SweepOptions options) {
  const std::string command = "urtrs-sim sweep" + filter_text(given) + check_text(given) +
                              (given.time.empty() ? "" : " --time " + given.time) +
                              (given.traces == "." ? "" : " --traces " + given.traces) +
                              (given.artifacts.empty() ? "" : " --artifacts " + given.artifacts);
  const auto seeds = [](const SeedRange& range) {
    return " --seeds " + std::to_string(range.first) + ".." + std::to_string(range.end);
  };
  if (given.state.empty()) {
    options.go_on = [&](SeedRange rest) { return command + seeds(rest); };
    return sweep(options);
  }
  auto state = SweepState::open(given.state, {options.seeds, filter_text(given) + check_text(given)});
  if (!state) return usage("--state: " + state.error());
  // Writes the state at the start, so that an unwritable file is not reported only after hours of work.
  if (!state->save(state->next()))
    return usage("--state: cannot write " + given.state + ": " + std::strerror(errno) + " (errno " +
                 std::to_string(errno) + ")");
  const SeedRange whole = options.seeds;
  options.go_on = [&](SeedRange) { return command + seeds(whole) + " --state " + given.state; };
  options.state = &*state;
  if (state->next() != whole.first)
    std::printf("%s: seeds %llu..%llu are done\n", given.state.c_str(),
                static_cast<unsigned long long>(whole.first), static_cast<unsigned long long>(state->next()));
  options.seeds.first = state->next();
  return options.seeds.size() == 0 ? kOk : sweep(options);
}

enum class Many { sweep, hash, coverage };

int many_seeds(const Arguments& given, Many what) {
  const auto range = parse_seed_range(given.seeds);
  if (!range) return wrong_seeds(given.seeds);
  std::optional<rtrs::sim::FaultFilter> filter;
  std::string why;
  if (!parse_filter(given, filter, why)) return usage(why);
  SweepOptions options;
  options.filter = filter ? &*filter : nullptr;
  options.filter_text = filter_text(given);
  options.seeds = *range;
  options.jobs = given.jobs;
  options.determinism_percent = what == Many::sweep ? given.determinism : 0;
  options.specification = what == Many::sweep && !given.no_specification;
  options.block_devices = what == Many::sweep && !given.no_block_devices && !filter;
  options.hash_only = options.quiet = what == Many::hash;
  options.replay = given.replay;
  options.over_tcp = over_tcp(given);
  options.make_net = make_net(given);
  options.traces = given.traces;
  options.artifacts = given.artifacts;
  options.histories = given.histories;
  auto excused = parse_oracles(given.excused, why);
  if (!excused) return usage("--excuse: no oracle '" + printable(why) + "'; `urtrs-sim list` prints all ids");
  options.excused = std::move(*excused);
  if (!read_time(given, options.time_limit)) return kUsage;
  if (what == Many::coverage) return coverage(options, given.rare);
  const int cases = given.ledger.empty() ? kOk : run_cases(given.ledger);
  // A sweep ends at the first failure, unless it writes a result.
  if (cases == kUsage || (cases != kOk && given.result.empty())) return cases;
  if (!given.result.empty()) return std::max(cases, sweep_to_result(given, options));
  return what == Many::hash ? sweep(options) : sweep_from_state(given, options);
}

// Reports an unknown command. CLI11 would say that a command is missing.
int check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return kOk;
  if (std::string_view(argv[1]) == "help") return kOk;  // handled by words_to_parse()
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return kOk;
    names.push_back(command->get_name());
  }
  const std::string near = nearest_word(argv[1], names);
  complain(
      "unknown command '" + printable(shortened(argv[1])) + "'; " +
      (near.empty() ? "the commands are " + CLI::detail::join(names, ", ") : "did you mean '" + near + "'?"));
  return kUsage;
}

void print_list(bool steps) {
  if (!steps) return print_catalogue();
  const std::string reference = rtrs::sim::scenario_reference();
  std::fputs(reference.c_str(), stdout);
  answer() = {{"command", "list"}, {"reference", reference}};
}

void set_up(CLI::App& app) {
  use_help(app);
  app.require_subcommand(1);
  app.set_version_flag("--version", rtrs::tools::version_text("urtrs-sim"),
                       "print version, fabrics and compiler, and exit");
}

int command(int argc, char** argv) {
  Arguments given;
  CLI::App app{"Simulated runs of real RTRS clients and servers, checked against rules", "urtrs-sim"};
  set_up(app);
  CLI::App* one = run_options(app, given);
  CLI::App* small = shrink_options(app, given);
  CLI::App* many = sweep_options(app, given);
  CLI::App* blamed = blame_options(app, given);
  CLI::App* hash = hash_options(app, given);
  CLI::App* directed = scenarios_options(app, given);
  CLI::App* covered = coverage_options(app, given);
  MergeCommand sum;
  CLI::App* merged = merge_options(app, sum);
  LedgerCommand kept;
  CLI::App* ledger = ledger_options(app, kept);
  ExploreCommand search;
  CLI::App* all = explore_options(app, search);
  bool steps = false;
  CLI::App* list = list_options(app, steps);
  set_footers(app);
  if (const int code = check_subcommand(app, argc, argv)) return code;
  try {
    app.parse(words_to_parse(app, argc, argv));
  } catch (const CLI::ParseError& error) {
    if (const auto help = help_asked(app, error)) return std::fputs(help->c_str(), stdout), kOk;
    return report_wrong_usage(app, error);
  }
  for (const CLI::App* chosen : {one, small, directed, blamed})
    if (*chosen && !use_file(given, *chosen)) return kUsage;
  if (*one) return run(given);
  if (*small) return shrink(given);
  if (*blamed) return blame(given);
  if (*many) return many_seeds(given, Many::sweep);
  if (*hash) return many_seeds(given, Many::hash);
  if (*covered) return many_seeds(given, Many::coverage);
  if (*directed) return scenarios(given);
  if (*merged) return merge_results(sum);
  if (*ledger) return keep_ledger(kept);
  if (*all) return explore(search);
  if (*list) print_list(steps);
  return kOk;
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  const bool json = wants_json(argc, argv);
  return written("urtrs-sim", run_and_answer(json, [&] { return command(argc, argv); }), kUsage);
}
