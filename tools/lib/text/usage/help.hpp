// Prints --help and --help-all for programs that use CLI11: at most 80 columns wide, and --help fits on a
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

// Sets up --help of the program and of the subcommands that are added after this call.
void use_help(CLI::App& app);

// Like use_help(), for a program whose options do not fit on a screen. --help shows only the options `common`
// ("--port") and the footer; --help-all shows all options, the footer and `notes`.
void use_short_help(CLI::App& app, std::vector<std::string> common, std::string notes = {});

// Returns the text to print if `error` is a request for help or version; nullopt for a real error. `error`
// must come from app.parse().
std::optional<std::string> help_asked(const CLI::App& app, const CLI::ParseError& error);

}  // namespace rtrs::tools
