// What a program that uses CLI11 says of a wrong command line, in one line.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rtrs::tools {

// "urtrs-sim: unknown option \"--sed\" of run; did you mean \"--seed\"?\n". Where it has no better hint, it
// names the help of the subcommand that was read. `app` has parsed, and thrown `error`.
std::string command_line_error(const CLI::App& app, const CLI::ParseError& error);

// The arguments of a program as App::parse() takes them from a vector, the last one first. "--option="
// becomes the option and an empty word: CLI11 would take the next argument for its value. Throws
// CLI::ArgumentMismatch where an option of `app` or its subcommands stands in place of another one's value.
std::vector<std::string> words_to_parse(const CLI::App& app, const std::vector<std::string>& arguments);
std::vector<std::string> words_to_parse(const CLI::App& app, int argc, const char* const* argv);

}  // namespace rtrs::tools
