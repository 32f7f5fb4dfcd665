// `urtrs-sim explore`: searches all states of small configurations.
#pragma once
#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace rtrs::sim_tool {

struct ExploreCommand {
  std::string configuration = "all";  // name of a configuration, or "all"
  std::string fence = "both";         // "on", "off" or "both"
  unsigned threads = 1;
  std::size_t most_bytes = std::size_t{2} << 30;  // memory limit of each search, in bytes
  bool drop_late = false;  // sets sim::MachineConfig::drop_late; cannot be combined with `out`
  bool markdown = false;   // print only the results, as a Markdown table
  std::string out;         // output file for the counter-example of the first rule that is broken
  std::string replay;      // counter-example file to run instead of a search
};
// Adds the command; parsing fills `command`.
CLI::App* explore_options(CLI::App&, ExploreCommand& command);
// Returns the exit code: kOk if every configuration has the expected result. In a configuration with a
// planted bug, the expected result is a violation of the configuration's rule.
int explore(const ExploreCommand&);

}  // namespace rtrs::sim_tool
