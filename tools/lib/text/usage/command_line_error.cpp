#include "tools/lib/text/usage/command_line_error.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "tools/lib/text/help_text.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/printable.hpp"

namespace rtrs::tools {

namespace {

// Returns the innermost subcommand on the command line; `app` itself if there is none.
const CLI::App& read_last(const CLI::App& app) {
  const std::vector<CLI::App*> read = app.get_subcommands();
  return read.empty() ? app : read_last(*read.back());
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names{"--help"};
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string subcommands_of(const CLI::App& app) {
  std::string names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + one->get_name();
  return names;
}

// Rewrites the CLI11 messages "Could not convert: --last = all" and "--port: 1 required TEXT missing" so that
// they say which value is needed. Returns other messages unchanged.
std::string plain_parse_error(const std::string& what) {
  constexpr std::string_view kConvert = "Could not convert: ";
  constexpr std::string_view kRequired = ": 1 required ";
  if (const std::size_t equals = what.find(" = ");
      what.rfind(kConvert, 0) == 0 && equals != std::string::npos)
    return what.substr(kConvert.size(), equals - kConvert.size()) +
           ": expected a number in its range, got \"" + what.substr(equals + 3) + "\"";
  if (const std::size_t required = what.find(kRequired); required != std::string::npos)
    return what.substr(0, required) + " needs a value: " +
           what.substr(required + kRequired.size(), what.rfind(" missing") - required - kRequired.size());
  return what;
}

// Collects the long options of the program and its subcommands. The value is true if the option needs a
// value.
void collect_options(const CLI::App& app, std::map<std::string, bool>& into) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      into["--" + name] = option->get_items_expected_min() > 0;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; }))
    collect_options(*one, into);
}

// Handles "help TOPIC". If TOPIC is a command, returns the arguments of "COMMAND --help". If it is an option,
// throws the entries of the option in the help of the program and its commands. The exception is
// CLI::CallForVersion, with which CLI11 returns the text of --version.
std::vector<std::string> help_arguments(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.size() == 1) return {"--help"};
  const std::string& topic = arguments[1];
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* one : commands)
    if (one->get_name() == topic) return {topic, "--help"};
  std::string entries = help_entries_about(app.help("", CLI::AppFormatMode::All), topic);
  for (const CLI::App* one : commands) {
    const std::string of_command = help_entries_about(one->help("", CLI::AppFormatMode::All), topic);
    if (!of_command.empty()) entries += "of " + one->get_name() + ":\n" + of_command;
  }
  if (entries.empty())
    throw CLI::ArgumentMismatch("unknown command or option \"" + printable(shortened(topic)) + "\"");
  entries.pop_back();  // the caller that prints the text adds the newline
  throw CLI::CallForVersion(entries, CLI::ExitCodes::Success);
}

}  // namespace

std::string command_line_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& last = read_last(app);
  const bool inner = &last != &app;
  const std::string command = app.get_name() + (inner ? " " + last.get_name() : "");
  const std::string see = "see " + command + " --help";
  const std::vector<std::string> left = app.remaining(true);
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  std::string what;
  std::string hint = see;
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !left.empty()) {
    const auto option = std::find_if(left.begin(), left.end(), is_option);
    const std::string& word = option != left.end() ? *option : left.front();
    what = std::string("unknown ") + (option != left.end() ? "option" : "argument") + " \"" +
           printable(shortened(word)) + "\"" + (inner ? " of " + last.get_name() : "");
    const std::string near =
        option != left.end() ? nearest_word(word.substr(0, word.find('=')), options_of(last)) : "";
    if (!near.empty()) hint = "did you mean \"" + near + "\"?";
  } else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) && !inner &&
             app.get_require_subcommand_min() != 0 && app.get_subcommands().empty()) {
    what = "no command is given; the commands are " + subcommands_of(app);
  } else {
    // Uses only the first line, because CLI11 lists the allowed values on several lines.
    what = error.what();
    what = plain_parse_error(printable(what.substr(0, what.find('\n'))));
  }
  return app.get_name() + ": " + what + "; " + hint + "\n";
}

std::vector<std::string> words_to_parse(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.size() <= 2 && arguments[0] == "help") {
    std::vector<std::string> words = help_arguments(app, arguments);
    std::reverse(words.begin(), words.end());
    return words;
  }
  std::map<std::string, bool> known;
  collect_options(app, known);
  std::vector<std::string> words;
  bool options = true;
  std::string waits;  // option whose value must be the next word; empty if none
  for (const std::string& word : arguments) {
    options = options && word != "--";
    if (!waits.empty() && known.contains(word.substr(0, word.find('='))))
      throw CLI::ArgumentMismatch(waits + " needs a value, but the next argument, \"" + printable(word) +
                                  "\", is an option");
    const auto option = known.find(word);
    waits = waits.empty() && options && option != known.end() && option->second ? word : "";
    if (options && word.rfind("--", 0) == 0 && word.find('=') == word.size() - 1) {
      words.push_back(word.substr(0, word.size() - 1));
      words.emplace_back();
    } else {
      words.push_back(word);
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string> words_to_parse(const CLI::App& app, int argc, const char* const* argv) {
  return words_to_parse(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

}  // namespace rtrs::tools
