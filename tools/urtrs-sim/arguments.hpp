// Options of urtrs-sim and of its commands.
#pragma once
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "sim/world/world.hpp"

namespace rtrs::sim_tool {

struct Arguments {
  std::string seed;
  std::string seeds = "0..1000";
  std::string scenario_seeds = "0..10";
  std::string trace;
  std::string time;
  std::string choice_log;
  std::string scenario;
  std::string file;  // scenario file
  std::string out;
  std::string only;
  std::string rare;
  std::string without;
  std::string only_faults;
  std::string traces = ".";
  std::string state;
  std::string result;
  std::string ledger;
  std::string artifacts;
  std::string histories;
  std::string excused;
  std::string fabric = "sim";
  std::string page;
  std::size_t points = 32;
  std::size_t redraws = 24;
  bool verbose = false;
  bool no_fence = false;
  bool replay = false;
  bool no_specification = false;
  bool no_block_devices = false;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  unsigned determinism = 2;
};

// The next three functions print an error on stderr, with a reference to --help if the text contains no
// advice. They return kUsage.
int usage(const std::string& text);
int wrong_seed(const std::string& text);
int wrong_seeds(const std::string& text);

bool over_tcp(const Arguments& given);
// Returns the network for --fabric verbs-mock; null for other fabrics.
sim::MakeNet make_net(const Arguments& given);
// Returns false and sets `why` if a name is unknown. `filter` stays empty if all faults are enabled.
bool parse_filter(const Arguments& given, std::optional<sim::FaultFilter>& filter, std::string& why);
// Returns the fabric and fault options as given, for a command line that repeats a run. Example: " --fabric
// tcp --without crash".
std::string filter_text(const Arguments& given);
// Returns the other options that change what a sweep runs, for example " --check-determinism 5".
std::string check_text(const Arguments& given);

// The next functions each add one command.
CLI::App* run_options(CLI::App& app, Arguments& given);
CLI::App* shrink_options(CLI::App& app, Arguments& given);
CLI::App* sweep_options(CLI::App& app, Arguments& given);
CLI::App* blame_options(CLI::App& app, Arguments& given);
CLI::App* hash_options(CLI::App& app, Arguments& given);
CLI::App* scenarios_options(CLI::App& app, Arguments& given);
CLI::App* coverage_options(CLI::App& app, Arguments& given);
CLI::App* list_options(CLI::App& app, bool& steps);

}  // namespace rtrs::sim_tool
