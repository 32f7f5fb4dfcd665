// The explore command: all states of small worlds.
#pragma once
#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace rtrs::tools {

struct ExploreCommand {
  std::string configuration = "all";  // name of one, or all
  std::string fence = "both";         // on, off, both
  unsigned threads = 1;
  std::size_t most_bytes = std::size_t{2} << 30;  // that one search may use
  bool drop_late = false;                         // sim::MachineConfig::drop_late; not with `out`
  bool markdown = false;  // the results as a Markdown table and nothing else on stdout
  std::string out;        // file for the counter-example of the first rule that is broken
  std::string replay;     // such a file, to be played instead
};
// Adds the command, which fills `command` in.
CLI::App* explore_options(CLI::App&, ExploreCommand& command);
// The exit code: kOk when each configuration came out as it must, planted ones with their rule broken.
int explore(const ExploreCommand&);

}  // namespace rtrs::tools
