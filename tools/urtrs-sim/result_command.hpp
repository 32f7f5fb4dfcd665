// `sweep --result`, `scenarios --result` and `merge`: results of ranges of seeds as files (sweep_result.hpp).
#pragma once
#include <string>
#include <vector>

#include "tools/urtrs-sim/arguments.hpp"
#include "tools/urtrs-sim/scenarios.hpp"
#include "tools/urtrs-sim/sweep.hpp"

namespace rtrs::sim_tool {

// Runs all seeds, failing or not, and writes the result to the file that --result names. Returns the exit
// code: kViolated if a seed failed.
int sweep_to_result(const Arguments& given, SweepOptions options);

// As sweep_to_result(), for each directed scenario with each seed.
int scenarios_to_result(const Arguments& given, ScenarioOptions options);

struct MergeCommand {
  std::vector<std::string> files;  // result files, and folders with files *.json
  std::string out;
  std::string seeds;  // the range that the files must hold; empty: the range from the first to the last seed
};
// Writes the sum of the results to `out`. Returns the exit code.
int merge_results(const MergeCommand& command);

CLI::App* merge_options(CLI::App& app, MergeCommand& command);

}  // namespace rtrs::sim_tool
