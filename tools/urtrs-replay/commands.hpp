// Subcommands of urtrs-replay. Each subcommand has a file command_NAME.cpp with its options, help and
// implementation, and one line in commands.cpp. main.cpp contains no code for individual commands.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "backends/options/quantity.hpp"
#include "tools/lib/trace/command/exit_codes.hpp"
#include "tools/lib/trace/command/files.hpp"

namespace rtrs::replay_tool {

// Nearly every subcommand uses the exit codes.
using enum tools::ExitCode;
using tools::create_output;
using tools::error;
using tools::given_twice;
using tools::InputFile;
using tools::may_write;
using tools::Output;
using tools::Progress;
using tools::report_stop;
using tools::warn_of_damage;

// Holds the function of the chosen subcommand.
struct Runner {
  std::function<int()> run;
};

// Adds the subcommand `name`, which runs work(options) if it is chosen. `bind` adds its arguments to the App
// and binds them to the Options, which live as long as the App. `footer` must contain "Example:" or
// "Examples:", followed by lines that start with "  urtrs-replay "; examples_test.py runs each of these
// lines.
template <class Options, class Bind>
CLI::App* add_command(CLI::App& app, Runner& runner, const char* name, const char* summary,
                      const std::string& footer, Bind&& bind, int (*work)(const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(name, summary);
  std::forward<Bind>(bind)(*command, *options);
  command->footer(footer);
  command->callback([&runner, options, work] { runner.run = [options, work] { return work(*options); }; });
  return command;
}

// Adds the argument FILE for one trace, which may be given as the files of one rotation.
void add_trace(CLI::App& command, std::string& into);
// Adds the argument `name` for any number of traces.
CLI::Option* add_traces(CLI::App& command, const char* name, std::vector<std::string>& into,
                        const std::string& what);

// Table of exit codes, shown at the end of the help of each subcommand that gives a verdict.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 fine, 1 the judgement is bad (divergence, violation), 2 wrong usage or a file that cannot "
    "be opened or written, 3 no judgement (no trace, another version, or what is needed is missing), 4 the "
    "trace has a failure, but no simulated world shows it (simulate), 5 the trace is damaged, and the result "
    "covers the records before the damage.";

// Returns true if a simulated run wrote the trace. Only the simulator uses the seed 0.
inline bool has_seed(const trace::Origin& origin) {
  return origin.seed != 0 || origin.tool == "urtrs-sim";
}

// Adds an option for a duration. `into`: the duration in seconds, initialised with the default.
inline void add_duration(CLI::App& command, const char* name, double& into, const char* description) {
  std::ostringstream preset;
  preset << into << 's';
  command
      .add_option_function<std::string>(
          name,
          [name, &into](const std::string& text) {
            const auto duration = options::parse_duration(text);
            if (!duration) throw CLI::ValidationError(name, duration.error());
            into = static_cast<double>(*duration) / 1e9;
          },
          description)
      ->type_name("TIME")
      ->default_str(preset.str());
}

// Adds the option --follow. `into`: text for patience_of().
void add_follow(CLI::App& command, std::string& into);
tools::Patience patience_of(const std::string& follow);

// Default size limit, in bytes, of a trace that a command holds in memory, and of a capture that a command
// writes.
inline constexpr std::uint64_t kMaxTraceBytes = 1ULL << 30;
inline void add_max_size(
    CLI::App& command, std::uint64_t& into,
    const std::string& what = "Longest trace to read; it takes several times as much memory") {
  command
      .add_option_function<std::string>(
          "--max-size",
          [&into](const std::string& text) {
            const auto size = options::parse_size(text);
            if (!size) throw CLI::ValidationError("--max-size", size.error());
            into = *size;
          },
          what)
      ->type_name("SIZE")
      ->default_str("1G");
}
// Prints the error that the trace is larger than `max_size` bytes.
void report_too_long(const std::string& path, std::uint64_t max_size);

// Reads a trace that a command holds in memory. Prints errors on stderr. Returns the exit code.
int read_whole(const std::string& path, InputFile& file, std::uint64_t max_size, std::string& bytes);

// Adds all subcommands (commands.cpp).
void add_commands(CLI::App& app, Runner& runner);

}  // namespace rtrs::replay_tool
