#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/files.hpp"

namespace {

using namespace rtrs::tool;

constexpr const char* kExitCodes =
    "Exit codes: 0 identical or fine, 1 divergence or damaged trace, 2 wrong usage,\n"
    "3 cannot be replayed (no trace, another version, or its beginning is missing).";

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

struct Arguments {
  CatOptions cat;
  FileOptions replay;
  FileOptions stat;
  ImportOptions from_json;
};

void add_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* cat = app.add_subcommand("cat", "Print the records of a trace");
  cat->add_option("FILE", arguments.cat.file, "Trace file, - for standard input")->required();
  cat->add_flag("--json", arguments.cat.json, "One JSON object a line, without loss");
  cat->add_option("--last", arguments.cat.last, "Only the last N records")->type_name("N");
  cat->add_option("--instance", arguments.cat.instance, "Only records of this machine")->type_name("I");
  cat->footer(
      "Examples:\n  urtrs-replay cat run.rtrc | less\n  urtrs-replay cat run.rtrc --last 50\n"
      "  urtrs-replay cat run.rtrc --json | jq -c 'select(.event==\"PathChanged\")'");

  CLI::App* replay = app.add_subcommand("replay", "Run the core again on a trace and compare");
  replay->add_option("FILE", arguments.replay.file, "Trace file, - for standard input")->required();
  replay->add_flag("--json", arguments.replay.json, "The result as a JSON object");
  replay->footer(std::string("Example:\n  urtrs-replay replay run.rtrc\n\n") + kExitCodes);

  CLI::App* stat = app.add_subcommand("stat", "Who recorded a trace, how much is in it, is it whole");
  stat->add_option("FILE", arguments.stat.file, "Trace file, - for standard input")->required();
  stat->add_flag("--json", arguments.stat.json, "A JSON object");
  stat->footer("Example:\n  urtrs-replay stat run.rtrc");

  CLI::App* from_json = app.add_subcommand("from-json", "Turn the output of cat --json into a trace again");
  from_json->add_option("FILE", arguments.from_json.from, "Lines of JSON, - for standard input")->required();
  from_json->add_option("TRACE", arguments.from_json.to, "Trace file to write")->required();
  from_json->footer(
      "Example:\n  urtrs-replay cat run.rtrc --json > run.jsonl\n"
      "  urtrs-replay from-json run.jsonl again.rtrc");
}

int run(int argc, char** argv) {
  CLI::App app("Prints, checks and replays traces of urtrs sessions.", "urtrs-replay");
  app.require_subcommand(1);
  app.footer(std::string("Example:\n  urtrs-replay replay run.rtrc\n\n") + kExitCodes);
  Arguments arguments;
  add_commands(app, arguments);
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
  if (app.got_subcommand("cat")) return cat(arguments.cat);
  if (app.got_subcommand("replay")) return replay(arguments.replay);
  if (app.got_subcommand("stat")) return stat(arguments.stat);
  return from_json(arguments.from_json);
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
