// What --help and --help-all of a program that uses CLI11 print: 80 columns, and --help no more than a
// screen.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rtrs::tools {

// For the program and the subcommands that are added afterwards.
void use_help(CLI::App& app);

// The same for a program whose options do not fit on a screen: --help shows `common` ("--port") and the
// footer, --help-all all options and behind the footer `notes`.
void use_short_help(CLI::App& app, std::vector<std::string> common, std::string notes = {});

// What is to be printed where `error` only says that help or version is asked for. `app` has thrown it.
std::optional<std::string> help_asked(const CLI::App& app, const CLI::ParseError& error);

}  // namespace rtrs::tools
