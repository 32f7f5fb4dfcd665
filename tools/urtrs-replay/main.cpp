#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/text/usage/command_line_error.hpp"
#include "tools/lib/text/usage/help.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace {

using namespace rtrs::replay_tool;
using namespace rtrs::tools;

// Reports an unknown subcommand.
int check_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return exit_ok;
  const std::string word = argv[1];
  if (word == "help") return exit_ok;  // handled by words_to_parse()
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(word)) return exit_ok;  // also matches aliases
    names.push_back(command->get_name());
  }
  const std::string nearest = nearest_word(word, names);
  error("unknown command '" + word + "'; " +
        (nearest.empty() ? "the commands are " + CLI::detail::join(names, ", ")
                         : "did you mean '" + nearest + "'?"));
  return exit_usage;
}

int run(int argc, char** argv) {
  CLI::App app("Prints, checks and replays traces of urtrs sessions.", "urtrs-replay");
  use_help(app);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text("urtrs-replay"),
                       "print version, fabrics and compiler, and exit");
  app.footer(std::string("Example:\n  urtrs-replay replay run.rtrc\n\n") + kExitCodes);
  Runner runner;
  add_commands(app, runner);
  if (const int code = check_subcommand(app, argc, argv)) return code;
  try {
    app.parse(words_to_parse(app, argc, argv));
  } catch (const CLI::ParseError& wrong) {
    if (const auto help = help_asked(app, wrong)) {
      std::fputs(help->c_str(), stdout);
      return exit_ok;
    }
    const std::string text = command_line_error(app, wrong);  // "urtrs-replay: ...\n"
    error(text.substr(app.get_name().size() + 2, text.size() - app.get_name().size() - 3));
    return exit_usage;
  }
  return runner.run();
}

int answer(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::system_error& failure) {  // reading or writing a file failed
    error(failure.what());
    return exit_usage;
  } catch (const std::exception& failure) {
    error(failure.what());
    return exit_cannot_read;
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);
  const int code = answer(argc, argv);
  if (code == exit_usage || code == exit_cannot_read) remove_outputs();
  if (wants_json(argc, argv) && !unanswered_error().empty())
    std::fputs(json_error(code, unanswered_error()).c_str(), stdout);
  return written("urtrs-replay", code, exit_usage);
}
