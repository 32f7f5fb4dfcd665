#include "tools/lib/text/usage/help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "tools/lib/text/help_text.hpp"

namespace rtrs::tools {

namespace {

// Formats help texts itself, so that the layout does not depend on the version of CLI11. CLI11 only formats
// names and types of options.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() = default;
  HelpFormatter(std::vector<std::string> common, std::string notes)
      : common_(std::move(common)), notes_(std::move(notes)) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (name.empty()) name = full_name(*app);
    const bool all = common_.empty() || mode == CLI::AppFormatMode::All;
    std::string text = wrapped(app->get_description()) + "\n" + make_usage(app, name);
    text += section("Positionals", true, app->get_options([](const CLI::Option* option) {
      return option->get_positional() && !option->get_group().empty();
    }));
    text += section("Options", false, app->get_options([&](const CLI::Option* option) {
      return option->nonpositional() && !option->get_group().empty() && (all || is_common(*option));
    }));
    std::string commands;
    for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; }))
      commands += help_entry(command->get_display_name(true), command->get_description());
    if (!commands.empty()) text += "\nSubcommands:\n" + commands;
    if (!all) text += "\nThese are the most common options; --help-all lists all options.\n";
    if (!app->get_footer().empty()) text += "\n" + wrapped(app->get_footer()) + "\n";
    if (all && !notes_.empty()) text += "\n" + wrapped(notes_) + "\n";
    return text;
  }

 private:
  // Returns the name with its parents, such as "urtrs-sim sweep".
  static std::string full_name(const CLI::App& app) {
    const CLI::App* parent = app.get_parent();
    return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
  }

  bool is_common(const CLI::Option& option) const {
    return std::any_of(common_.begin(), common_.end(),
                       [&](const std::string& name) { return option.check_name(name); });
  }

  std::string section(const char* title, bool positional,
                      const std::vector<const CLI::Option*>& options) const {
    if (options.empty()) return {};
    std::string text = "\n" + std::string(title) + ":\n";
    for (const CLI::Option* option : options)
      text += help_entry(make_option_name(option, positional) + make_option_opts(option),
                         make_option_desc(option));
    return text;
  }

  std::vector<std::string> common_;  // options shown by --help; empty: all
  std::string notes_;
};

constexpr const char* kHelpDescription = "print this help and exit";

}  // namespace

void use_help(CLI::App& app) {
  app.set_help_flag("-h,--help", kHelpDescription);
  app.formatter(std::make_shared<HelpFormatter>());
}

void use_short_help(CLI::App& app, std::vector<std::string> common, std::string notes) {
  common.insert(common.end(), {"--help", "--help-all", "--version"});
  app.set_help_flag("-h,--help", kHelpDescription);
  app.set_help_all_flag("--help-all", "print help with all options and exit");
  app.formatter(std::make_shared<HelpFormatter>(std::move(common), std::move(notes)));
}

std::optional<std::string> help_asked(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) return app.help();
  if (dynamic_cast<const CLI::CallForAllHelp*>(&error) != nullptr)
    return app.help("", CLI::AppFormatMode::All);
  if (error.get_exit_code() == 0) return std::string(error.what()) + "\n";  // text of --version
  return std::nullopt;
}

}  // namespace rtrs::tools
