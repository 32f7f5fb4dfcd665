#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lib/command/files.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace {

using namespace rtrs::tools;

// Edits from one word to another.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

// A word where a subcommand belongs that is none.
int check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return exit_ok;
  const std::string word = argv[1];
  std::string nearest;
  std::string names;
  std::size_t least = 3;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string& name = command->get_name();
    if (name == word) return exit_ok;
    names += (names.empty() ? "" : ", ") + name;
    if (distance(word, name) < least) {
      least = distance(word, name);
      nearest = name;
    }
  }
  error("no command '" + word + "'; " +
        (nearest.empty() ? "the commands are " + names : "did you mean '" + nearest + "'?"));
  return exit_usage;
}

int run(int argc, char** argv) {
  CLI::App app("Prints, checks and replays traces of urtrs sessions.", "urtrs-replay");
  app.require_subcommand(1);
  app.footer(std::string("Example:\n  urtrs-replay replay run.rtrc\n\n") + kExitCodes);
  Runner runner;
  add_commands(app, runner);
  if (const int code = check_subcommand(app, argc, argv)) return code;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == 0) {
      app.exit(wrong);
      return exit_ok;
    }
    error(std::string(wrong.what()) + "; see urtrs-replay " +
          (argc > 1 && argv[1][0] != '-' ? std::string(argv[1]) + ' ' : std::string()) + "--help");
    return exit_usage;
  }
  return runner.run();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::exception& failure) {
    error(failure.what());
    return exit_bad_trace;
  }
}
