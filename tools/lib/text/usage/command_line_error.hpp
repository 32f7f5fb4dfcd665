// Makes a one-line error message for a wrong command line, for programs that use CLI11.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rtrs::tools {

// Returns, for example, "urtrs-sim: unknown option \"--sed\" of run; did you mean \"--seed\"?\n". If there is
// no better hint, the message refers to --help of the subcommand. `error` must come from app.parse().
std::string command_line_error(const CLI::App& app, const CLI::ParseError& error);

// Returns the arguments in the form that App::parse() needs: last argument first. "--option=" becomes the
// option and an empty word, because CLI11 would otherwise take the next argument as the value. Throws
// CLI::ArgumentMismatch if an option needs a value and the next argument is an option of `app` or of its
// subcommands.
std::vector<std::string> words_to_parse(const CLI::App& app, const std::vector<std::string>& arguments);
std::vector<std::string> words_to_parse(const CLI::App& app, int argc, const char* const* argv);

}  // namespace rtrs::tools
