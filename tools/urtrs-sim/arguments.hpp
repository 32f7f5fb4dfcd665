// The options of urtrs-sim and of its commands.
#pragma once
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <thread>

#include "sim/world/world.hpp"

namespace rtrs::tools {

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
  std::string state;
  std::string artifacts;
  std::string fabric = "sim";
  bool verbose = false;
  bool no_fence = false;
  bool replay = false;
  bool no_specification = false;
  bool no_block_devices = false;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  unsigned determinism = 5;
};

// Says it on stderr, with a word on help where it names no remedy; exit code kUsage.
int usage(const std::string& text);
int wrong_seed(const std::string& text);
int wrong_seeds(const std::string& text);

bool over_tcp(const Arguments& given);
// Null: not over adapters in memory.
sim::MakeNet make_net(const Arguments& given);
// False, and why, when a name is unknown. `filter` stays empty when nothing is to be left out.
bool parse_filter(const Arguments& given, std::optional<sim::FaultFilter>& filter, std::string& why);
// As it was given, for the line that repeats a run: " --fabric tcp --without crash".
std::string filter_text(const Arguments& given);
// What else of a sweep changes what it plays: " --replay-check".
std::string sweep_text(const Arguments& given);

// Each adds its command.
CLI::App* run_options(CLI::App& app, Arguments& given);
CLI::App* shrink_options(CLI::App& app, Arguments& given);
CLI::App* sweep_options(CLI::App& app, Arguments& given);
CLI::App* hash_options(CLI::App& app, Arguments& given);
CLI::App* scenarios_options(CLI::App& app, Arguments& given);
CLI::App* coverage_options(CLI::App& app, Arguments& given);
CLI::App* list_options(CLI::App& app, bool& steps);

}  // namespace rtrs::tools
