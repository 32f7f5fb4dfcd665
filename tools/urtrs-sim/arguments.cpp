#include "tools/urtrs-sim/arguments.hpp"
#include "tools/urtrs-sim/answer.hpp"

#include <cstdio>
#include <filesystem>

#include "sim/faults/faults.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/verbs_mock.hpp"

namespace rtrs::sim_tool {

namespace {

// Returns a hint such as " (did you mean 'crash'?)" about the word that is quoted in `why`; an empty string
// if no fault has a similar name.
std::string suggest_fault(const std::string& why) {
  const std::size_t begin = why.find('\'') + 1;
  std::vector<std::string> names{"operator", "storage_slow", "storage_error", "block_device", "keys"};
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
    names.emplace_back(to_string(static_cast<sim::FaultClass>(fault)));
  const std::string near = tools::nearest_word(why.substr(begin, why.find('\'', begin) - begin), names);
  return near.empty() ? "" : " (did you mean '" + near + "'?)";
}

void filter_options(CLI::App& app, Arguments& given) {
  auto* without = app.add_option("--without", given.without,
                                 "exclude these classes of faults, make these labels calm, or block_device: "
                                 "send requests to the session directly, keys: share no keys (see list)");
  app.add_option("--only-faults", given.only_faults, "exclude all but these")->excludes(without);
}

void fabric_option(CLI::App& app, Arguments& given) {
  app.add_option("--fabric", given.fabric,
                 "sim: queue pairs of the simulator; tcp, verbs-mock: the shipped fabrics, over streams cut "
                 "anywhere and over adapters in memory")
      ->capture_default_str()
      ->check(CLI::IsMember({"sim", "tcp", kVerbsMock}))
      ->check(CLI::Validator(
          [](const std::string& fabric) {
            return fabric == kVerbsMock && verbs_mock() == nullptr
                       ? std::string(
                             "this urtrs-sim was built without libibverbs and librdmacm; install their "
                             "headers and build it again")
                       : std::string();
          },
          ""));
}

void file_option(CLI::App& app, Arguments& given) {
  app.add_option("--file", given.file, "a file with your own scenarios (docs/simulation.md has the format)");
}

void json_option(CLI::App& app) {
  app.add_flag_callback(
      "--json", [] {}, "one object instead of the text");
}

// Creates the folder if it does not exist.
CLI::Option* folder_option(CLI::App& app, const char* name, std::string& value, const char* text) {
  return app.add_option(name, value, text)
      ->type_name("FOLDER")
      ->check(CLI::Validator(
          [](const std::string& folder) {
            std::error_code error;
            std::filesystem::create_directories(folder, error);
            return error ? "cannot make " + folder + ": " + error.message() : std::string();
          },
          ""));
}

void artifacts_option(CLI::App& app, Arguments& given, const char* excludes) {
  folder_option(app, "--artifacts", given.artifacts,
                "folder for traces, capture, sequence diagram and report of a failing run")
      ->excludes(app.get_option(excludes));
}

void history_options(CLI::App& app, Arguments& given) {
  CLI::Option* histories =
      folder_option(app, "--histories", given.histories, "write histories, for tools/dev/porcupine/run");
  app.add_option("--excuse", given.excused, "oracles that stop no run: O3,O4, or all")
      ->type_name("ORACLES")
      ->needs(histories);
}

}  // namespace

int usage(const std::string& text) {
  const bool has_remedy =
      text.find("; ") != std::string::npos || text.find(": expected") != std::string::npos;
  complain(text + (has_remedy ? "" : "; see urtrs-sim --help"));
  return kUsage;
}

int wrong_seed(const std::string& text) {
  return usage("--seed takes one number below 2^64 - 1, not '" + text + "'");
}

int wrong_seeds(const std::string& text) {
  return usage("--seeds takes A..B with A < B, or A, below 2^64 - 1, not '" + text + "'");
}

bool parse_filter(const Arguments& given, std::optional<sim::FaultFilter>& filter, std::string& why) {
  if (given.without.empty() && given.only_faults.empty()) return true;
  filter = given.only_faults.empty() ? sim::without(given.without, why) : sim::only(given.only_faults, why);
  if (!filter) why += suggest_fault(why);
  return filter.has_value();
}

bool over_tcp(const Arguments& given) {
  return given.fabric == "tcp";
}

sim::MakeNet make_net(const Arguments& given) {
  return given.fabric == kVerbsMock ? verbs_mock() : nullptr;
}

std::string filter_text(const Arguments& given) {
  const std::string fabric = given.fabric == "sim" ? "" : " --fabric " + given.fabric;
  if (!given.without.empty()) return fabric + " --without " + given.without;
  return given.only_faults.empty() ? fabric : fabric + " --only-faults " + given.only_faults;
}

std::string check_text(const Arguments& given) {
  std::string text = " --check-determinism " + std::to_string(given.determinism);
  if (given.no_specification) text += " --no-specification";
  if (given.no_block_devices) text += " --no-block-devices";
  if (!given.histories.empty()) text += " --histories " + given.histories;
  if (!given.excused.empty()) text += " --excuse " + given.excused;
  return given.replay ? text + " --replay-check" : text;
}

CLI::App* run_options(CLI::App& app, Arguments& given) {
  CLI::App* one = app.add_subcommand("run", "play one seed, or one choice log");
  one->add_option("--seed", given.seed, "the seed");
  one->add_option("--scenario", given.scenario, "play this directed scenario (see list), or all of one race");
  file_option(*one, given);
  one->add_flag("--no-fence", given.no_fence, "scenario only: run without the fence, judged as if with it");
  one->add_option("--choices,--tape", given.choice_log,
                  "a choice log written by shrink; add --file if the run used your own file");
  one->add_option("--trace", given.trace, "write PREFIX.server.rtrc and PREFIX.client<n>.rtrc")
      ->type_name("PREFIX");
  one->add_option("--page", given.page, "write the run as a page: summary, time axis, sequence diagram")
      ->type_name("FILE");
  artifacts_option(*one, given, "--trace");
  fabric_option(*one, given);
  one->add_flag("--verbose", given.verbose, "print what happens");
  filter_options(*one, given);
  json_option(*one);
  return one;
}

CLI::App* scenarios_options(CLI::App& app, Arguments& given) {
  CLI::App* directed = app.add_subcommand("scenarios", "play every directed scenario with a range of seeds");
  directed->add_option("--seeds", given.scenario_seeds, "A..B, without B")->capture_default_str();
  directed->add_option("--only", given.only, "only these ids, e.g. L01,R29a")
      ->check(CLI::Validator(
          [](const std::string& ids) {
            return ids.empty() ? std::string("expected ids of scenarios") : std::string();
          },
          ""));
  file_option(*directed, given);
  directed->add_flag("--no-fence", given.no_fence, "run without the fence, judged as if with it");
  directed->add_option("--result", given.result, "go on after failures; write them to this file, for merge")
      ->type_name("FILE");
  json_option(*directed);
  return directed;
}

CLI::App* coverage_options(CLI::App& app, Arguments& given) {
  CLI::App* covered = app.add_subcommand("coverage", "count the marks and pairs of states of a sweep");
  covered->add_option("--seeds", given.seeds, "A..B, without B")->capture_default_str();
  covered->add_option("--jobs", given.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 256));
  covered->add_option("--rare", given.rare,
                      "file of marks that need not be reached, each with a scenario that reaches it");
  json_option(*covered);
  return covered;
}

CLI::App* sweep_options(CLI::App& app, Arguments& given) {
  CLI::App* many = app.add_subcommand("sweep", "play a range of seeds until one fails");
  many->add_option("--seeds", given.seeds, "A..B, without B")->capture_default_str();
  many->add_option("--jobs", given.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 256));
  fabric_option(*many, given);
  many->add_option("--time", given.time, "stop after this long: 60s, 5m, 1h");
  many->add_option(
          "--check-determinism", given.determinism,
          "percent of the seeds to run again and compare, with traces; if not 0, always the first seed")
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  filter_options(*many, given);
  many->add_flag("--no-specification", given.no_specification, "oracles only, without the specification");
  many->add_flag("--no-block-devices", given.no_block_devices,
                 "leave out the world BD24 that one seed in eight plays besides its own, as --without does");
  many->add_flag("--replay-check", given.replay, "replay these traces and compare every state");
  many->add_option("--state", given.state, "save progress in this file and continue from it")
      ->type_name("FILE");
  many->add_option("--result", given.result,
                   "go on after failures; write marks, state pairs and failures to this file, for merge")
      ->type_name("FILE");
  many->add_option("--ledger", given.ledger, "first run the cases of this ledger")->type_name("FILE");
  many->add_option("--traces", given.traces, "folder for the traces of a seed that fails")
      ->capture_default_str()
      ->check(CLI::ExistingDirectory);
  artifacts_option(*many, given, "--traces");
  history_options(*many, given);
  json_option(*many);
  return many;
}

CLI::App* shrink_options(CLI::App& app, Arguments& given) {
  CLI::App* small = app.add_subcommand("shrink", "reduce a failing run and write it as a choice log");
  small->add_option("--seed", given.seed, "the failing seed");
  small->add_option("--scenario", given.scenario, "seed of this directed scenario");
  file_option(*small, given);
  fabric_option(*small, given);
  small->add_flag("--no-fence", given.no_fence, "scenario only: run without the fence, judged as if with it");
  small->add_option("--choices,--tape", given.choice_log, "or a failing choice log");
  small->add_option("--out", given.out, "the choice log to write; default urtrs-sim-SEED.choices");
  small->add_option("--time", given.time, "stop after this long: 10s, 1m; default 30s");
  json_option(*small);
  return small;
}

CLI::App* blame_options(CLI::App& app, Arguments& given) {
  CLI::App* blame = app.add_subcommand(
      "blame", "find the step of a failing run that made the failure likely, by redrawing its rest");
  blame->add_option("--seed", given.seed, "the failing seed");
  blame->add_option("--scenario", given.scenario, "seed of this directed scenario");
  file_option(*blame, given);
  fabric_option(*blame, given);
  blame->add_flag("--no-fence", given.no_fence, "scenario only: run without the fence, judged as if with it");
  blame->add_option("--choices", given.choice_log, "or a failing choice log");
  blame->add_option("--points", given.points, "points of the run from which the rest is redrawn, at first")
      ->capture_default_str()
      ->check(CLI::Range(2, 1000));
  blame->add_option("--redraws", given.redraws, "redraws from each point")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  blame->add_option("--jobs", given.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 256));
  blame->add_option("--page", given.page, "write the curve and the sequence diagram to this HTML file")
      ->type_name("FILE");
  json_option(*blame);
  return blame;
}

CLI::App* hash_options(CLI::App& app, Arguments& given) {
  CLI::App* hash = app.add_subcommand("hash", "one hash over the runs of a range of seeds");
  hash->add_option("--seeds", given.seeds, "A..B, without B")->capture_default_str();
  hash->add_option("--jobs", given.jobs, "processes")->capture_default_str()->check(CLI::Range(1, 256));
  fabric_option(*hash, given);
  json_option(*hash);
  return hash;
}

CLI::App* list_options(CLI::App& app, bool& steps) {
  CLI::App* list = app.add_subcommand("list", "oracles, faults, directed scenarios and marks");
  list->add_flag("--steps", steps, "options and steps of scenario files instead");
  json_option(*list);
  return list;
}

}  // namespace rtrs::sim_tool
