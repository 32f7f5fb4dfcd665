// urtrs-sim: plays simulated runs and says whether every rule held. Exit codes: 0 all held, 1 a rule was
// broken, 2 usage, 4 no progress, 5 the same seed gave two different runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "sim/scenarios/scenario_text.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/quantity.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/usage/command_line_error.hpp"
#include "tools/lib/usage/help.hpp"
#include "tools/lib/version/version.hpp"
#include "tools/urtrs-sim/coverage.hpp"
#include "tools/urtrs-sim/examples.hpp"
#include "tools/urtrs-sim/explore.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/scenarios.hpp"
#include "tools/urtrs-sim/shrink.hpp"
#include "tools/urtrs-sim/sweep.hpp"

namespace {

using namespace rtrs::tools;

struct Arguments {
  std::string seed;
  std::string seeds = "0..1000";
  std::string scenario_seeds = "0..10";
  std::string trace;
  std::string time;
  std::string choice_log;
  std::string scenario;
  std::string file;  // of scenarios
  std::string out;
  std::string only;
  std::string rare;
  std::string without;
  std::string only_faults;
  std::string traces = ".";
  std::string fabric = "sim";
  bool verbose = false;
  bool no_fence = false;
  bool replay = false;
  bool no_specification = false;
  bool no_block_devices = false;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  unsigned determinism = 5;
};

int say_wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::fputs(command_line_error(app, error).c_str(), stderr);
  return kUsage;
}

// `text` names the remedy, or one has to look for it.
int usage(const std::string& text) {
  const bool has_remedy =
      text.find("; ") != std::string::npos || text.find(": expected") != std::string::npos;
  std::fprintf(stderr, "urtrs-sim: %s%s\n", text.c_str(), has_remedy ? "" : "; see urtrs-sim --help");
  return kUsage;
}

int wrong_seed(const std::string& text) {
  return usage("--seed takes one number below 2^64 - 1, not '" + text + "'");
}

int wrong_seeds(const std::string& text) {
  return usage("--seeds takes A..B with A < B, or A, below 2^64 - 1, not '" + text + "'");
}

// " (did you mean 'crash'?)", of the word that `why` quotes; empty: none is near.
std::string near_fault(const std::string& why) {
  const std::size_t begin = why.find('\'') + 1;
  std::vector<std::string> names{"operator", "storage_slow", "storage_error", "block_device"};
  for (unsigned fault = 0; fault < rtrs::sim::kFaultClasses; ++fault)
    names.emplace_back(to_string(static_cast<rtrs::sim::FaultClass>(fault)));
  const std::string near = nearest_word(why.substr(begin, why.find('\'', begin) - begin), names);
  return near.empty() ? "" : " (did you mean '" + near + "'?)";
}

// False, and why, when a name is unknown. `filter` stays empty when nothing is to be left out.
bool parse_filter(const Arguments& given, std::optional<rtrs::sim::FaultFilter>& filter, std::string& why) {
  if (given.without.empty() && given.only_faults.empty()) return true;
  filter = given.only_faults.empty() ? rtrs::sim::without(given.without, why)
                                     : rtrs::sim::only(given.only_faults, why);
  if (!filter) why += near_fault(why);
  return filter.has_value();
}

bool over_tcp(const Arguments& given) {
  return given.fabric == "tcp";
}

// As it was given, for the line that repeats a run.
std::string filter_text(const Arguments& given) {
  const std::string fabric = over_tcp(given) ? " --fabric tcp" : "";
  if (!given.without.empty()) return fabric + " --without " + given.without;
  return given.only_faults.empty() ? fabric : fabric + " --only-faults " + given.only_faults;
}

void filter_options(CLI::App& app, Arguments& given) {
  auto* without = app.add_option(
      "--without", given.without,
      "leave out these classes of faults, make these labels calm, or block_device: give requests to "
      "the session itself (see list)");
  app.add_option("--only-faults", given.only_faults, "leave out all but these")->excludes(without);
}

void fabric_option(CLI::App& app, Arguments& given) {
  app.add_option(
         "--fabric", given.fabric,
         "what carries the messages: sim, queue pairs of the simulator; tcp, the TCP fabric that ships, "
         "over streams that are cut anywhere")
      ->capture_default_str()
      ->check(CLI::IsMember({"sim", "tcp"}));
}

void file_option(CLI::App& app, Arguments& given) {
  app.add_option("--file", given.file, "a file of scenarios of your own (docs/simulation.md has the format)");
}

// Makes the scenarios of --file known; those are meant that nobody names, but for a choice log. False, with a
// word on stderr, when it cannot, or does not know which one.
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
    if (ids->size() != 1) usage("say with --scenario which one of " + all);
    return ids->size() == 1;
  }
  return true;
}

// The run to play is named once: 0, or what is wrong was said.
int check_which(const Arguments& given) {
  if (given.seed.empty() && given.choice_log.empty())
    return usage(given.scenario.empty() ? "give --seed N or --choices FILE"
                                        : "give --seed N with --scenario");
  if (!given.seed.empty() && !given.choice_log.empty())
    return usage("--seed excludes --choices: a choice log has its seed; leave one of them out");
  if (given.no_fence && given.scenario.empty())
    return usage("--no-fence is for scenarios; a choice log has its world with or without the fence already");
  return kOk;
}

int run(const Arguments& given) {
  if (const int code = check_which(given)) return code;
  std::optional<rtrs::sim::FaultFilter> filter;
  std::string why;
  if (!parse_filter(given, filter, why)) return usage(why);
  if (filter && (!given.choice_log.empty() || !given.scenario.empty()))
    return usage("--without and --only-faults are for seeds");
  if (!given.choice_log.empty()) return run_and_report({0, {}, given.choice_log, given.trace, given.verbose});
  const auto range = parse_seed_range(given.seed);
  if (!range || range->size() != 1) return wrong_seed(given.seed);
  if (given.scenario.empty())
    return run_and_report({range->first,
                           {},
                           {},
                           given.trace,
                           given.verbose,
                           false,
                           filter ? &*filter : nullptr,
                           over_tcp(given)});
  auto ids = scenarios_of(given.scenario);
  if (ids.empty()) ids.push_back(given.scenario);
  int code = kOk;
  for (const std::string& id : ids) {
    if (ids.size() > 1) std::printf("%s: ", id.c_str());
    const int one = run_and_report(
        {range->first, id, {}, given.trace, given.verbose, given.no_fence, nullptr, over_tcp(given)});
    if (code == kOk) code = one;
  }
  return code;
}

int shrink(const Arguments& given) {
  if (const int code = check_which(given)) return code;
  ShrinkCommand command;
  command.scenario = given.scenario;
  command.file = given.file;
  command.choice_log = given.choice_log;
  command.no_fence = given.no_fence;
  command.out = given.out;
  command.over_tcp = over_tcp(given);
  if (!given.seed.empty()) {
    const auto range = parse_seed_range(given.seed);
    if (!range || range->size() != 1) return wrong_seed(given.seed);
    command.seed = range->first;
  }
  if (!given.time.empty()) {
    const auto time = parse_positive_duration(given.time);
    if (!time) return usage("--time: " + time.error());
    command.seconds = static_cast<double>(*time) / 1e9;
  }
  return shrink_and_report(command);
}

int scenarios(const Arguments& given) {
  const auto range = parse_seed_range(given.scenario_seeds);
  if (!range) return wrong_seeds(given.scenario_seeds);
  return play_scenarios({*range, given.only, given.no_fence, given.file});
}

CLI::App* run_options(CLI::App& app, Arguments& given) {
  CLI::App* one = app.add_subcommand("run", "play one seed, or one choice log");
  one->add_option("--seed", given.seed, "the seed");
  one->add_option("--scenario", given.scenario, "play this directed scenario (see list), or all of one race");
  file_option(*one, given);
  one->add_flag("--no-fence", given.no_fence, "of a scenario: without the fence, judged as if it were there");
  one->add_option("--choices,--tape", given.choice_log,
                  "a choice log written by shrink; of a run of a file of yours with --file too");
  one->add_option("--trace", given.trace, "write PREFIX.server.rtrc and PREFIX.client<n>.rtrc")
      ->type_name("PREFIX");
  fabric_option(*one, given);
  one->add_flag("--verbose", given.verbose, "print what happens");
  filter_options(*one, given);
  return one;
}

CLI::App* scenarios_options(CLI::App& app, Arguments& given) {
  CLI::App* directed = app.add_subcommand("scenarios", "play every directed scenario with a range of seeds");
  directed->add_option("--seeds", given.scenario_seeds, "A..B, without B")->capture_default_str();
  directed->add_option("--only", given.only, "of these ids only, e.g. L01,R29a")
      ->check(CLI::Validator(
          [](const std::string& ids) {
            return ids.empty() ? std::string("expected ids of scenarios") : std::string();
          },
          ""));
  file_option(*directed, given);
  directed->add_flag("--no-fence", given.no_fence, "without the fence, judged as if it were there");
  return directed;
}

CLI::App* coverage_options(CLI::App& app, Arguments& given) {
  CLI::App* covered = app.add_subcommand("coverage", "count the marks and pairs of states of a sweep");
  covered->add_option("--seeds", given.seeds, "A..B, without B")->capture_default_str();
  covered->add_option("--jobs", given.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 256));
  covered->add_option("--rare", given.rare,
                      "file of marks that need not be reached, each with a scenario that does");
  return covered;
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
  options.traces = given.traces;
  if (!given.time.empty()) {
    const auto time = parse_positive_duration(given.time);
    if (!time) return usage("--time: " + time.error());
    options.time_limit = static_cast<double>(*time) / 1e9;
  }
  return what == Many::coverage ? coverage(options, given.rare) : sweep(options);
}

CLI::App* sweep_options(CLI::App& app, Arguments& given) {
  CLI::App* many = app.add_subcommand("sweep", "play a range of seeds until one fails");
  many->add_option("--seeds", given.seeds, "A..B, without B")->capture_default_str();
  many->add_option("--jobs", given.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 256));
  fabric_option(*many, given);
  many->add_option("--time", given.time, "stop after this long: 60s, 5m, 1h");
  many->add_option("--check-determinism", given.determinism,
                   "percent of the seeds to run again and compare, with traces")
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  filter_options(*many, given);
  many->add_flag("--no-specification", given.no_specification,
                 "the oracles alone: do not judge every run by the specification");
  many->add_flag("--no-block-devices", given.no_block_devices,
                 "leave out the world BD24 that each seed plays besides its own; --without and --only-faults "
                 "leave it out too");
  many->add_flag("--replay-check", given.replay, "replay the traces of those seeds, every state compared");
  many->add_option("--traces", given.traces, "folder for the traces of a seed that fails")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  return many;
}

// CLI11 calls a mistyped command a missing one.
int check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return kOk;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return kOk;
    names.push_back(command->get_name());
  }
  const std::string near = nearest_word(argv[1], names);
  std::fprintf(stderr, "urtrs-sim: no command '%s'; %s\n", printable(shortened(argv[1])).c_str(),
               near.empty() ? ("the commands are " + CLI::detail::join(names, ", ")).c_str()
                            : ("did you mean '" + near + "'?").c_str());
  return kUsage;
}

CLI::App* list_options(CLI::App& app, bool& steps) {
  CLI::App* list = app.add_subcommand("list", "oracles, faults, directed scenarios and marks");
  list->add_flag("--steps", steps, "options and steps of scenario files instead");
  return list;
}

void print_list(bool steps) {
  if (!steps) return print_catalogue();
  std::fputs(rtrs::sim::scenario_reference().c_str(), stdout);
}

void set_up(CLI::App& app) {
  use_help(app);
  app.require_subcommand(1);
  app.set_version_flag("--version", rtrs::tools::version_text("urtrs-sim"),
                       "print version, fabrics and compiler, then leave");
}

int answer(int argc, char** argv) {
  Arguments given;
  CLI::App app{"Simulated runs of real RTRS clients and servers, checked against rules", "urtrs-sim"};
  set_up(app);
  CLI::App* one = run_options(app, given);
  CLI::App* small = app.add_subcommand("shrink", "make a failing run small and write it as a choice log");
  small->add_option("--seed", given.seed, "the failing seed");
  small->add_option("--scenario", given.scenario, "of this directed scenario");
  file_option(*small, given);
  fabric_option(*small, given);
  small->add_flag("--no-fence", given.no_fence,
                  "of a scenario: without the fence, judged as if it were there");
  small->add_option("--choices,--tape", given.choice_log, "or a failing choice log");
  small->add_option("--out", given.out, "the choice log to write; default urtrs-sim-SEED.choices");
  small->add_option("--time", given.time, "stop after this long: 10s, 1m; default 30s");
  CLI::App* many = sweep_options(app, given);
  CLI::App* hash = app.add_subcommand("hash", "one hash over the runs of a range of seeds");
  hash->add_option("--seeds", given.seeds, "A..B, without B")->capture_default_str();
  hash->add_option("--jobs", given.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 256));
  fabric_option(*hash, given);
  CLI::App* directed = scenarios_options(app, given);
  CLI::App* covered = coverage_options(app, given);
  ExploreCommand search;
  CLI::App* all = explore_options(app, search);
  bool steps = false;
  CLI::App* list = list_options(app, steps);
  set_footers(app);
  if (const int code = check_subcommand(app, argc, argv)) return code;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const auto help = help_asked(app, error)) return std::fputs(help->c_str(), stdout), kOk;
    return say_wrong_usage(app, error);
  }
  for (const CLI::App* command : {one, small, directed})
    if (*command && !use_file(given, *command)) return kUsage;
  if (*one) return run(given);
  if (*small) return shrink(given);
  if (*many) return many_seeds(given, Many::sweep);
  if (*hash) return many_seeds(given, Many::hash);
  if (*covered) return many_seeds(given, Many::coverage);
  if (*directed) return scenarios(given);
  if (*all) return explore(search);
  if (*list) print_list(steps);
  return kOk;
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  return written("urtrs-sim", answer(argc, argv), kUsage);
}
