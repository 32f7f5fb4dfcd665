#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/cluster/journal.hpp"
#include "tools/lib/choice_log/tape_file.hpp"
#include "tools/lib/command/files.hpp"
#include "tools/lib/trace_to_scenario/lift.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace rtrs::tool {
namespace {

// Of this command alone: something is wrong with the trace, and no world shows it.
constexpr int kNotLifted = 4;

struct LiftCommandOptions {
  std::string file;
  std::string out;
  std::uint64_t seeds = 200;
  double seconds = 120;
  bool json = false;
};

void print(const LiftCommandOptions& options, const Lifted& lifted) {
  Output out;
  const sim::TapeSize& before = lifted.run.shrunk.before;
  const sim::TapeSize& after = lifted.run.shrunk.after;
  if (options.json) {
    nlohmann::json json = {{"fails", lifted.fails}, {"tried", lifted.tried}};
    if (!lifted.fails) json["why"] = lifted.why;
    if (lifted.fails) {
      json["seed"] = lifted.seed;
      json["guess"] = lifted.words;
      json["signature"] = lifted.run.last.signature;
      json["seen"] = lifted.run.last.seen;
      json["steps_before"] = before.operations;
      json["steps"] = after.operations;
      json["spans"] = after.spans();
      json["runs"] = lifted.run.shrunk.runs;
      json["file"] = options.out;
    }
    out.line(json.dump());
  } else if (!lifted.fails) {
    out.line("none of " + std::to_string(lifted.tried) +
             " worlds made from this trace breaks a rule; --seeds tries more of them");
    out.line(lifted.why);
  } else {
    out.line("fails: " + lifted.run.last.signature + " at " + sim::to_seconds(lifted.run.last.time) + ": " +
             lifted.run.last.seen);
    out.line("with " + lifted.words + ", seed " + std::to_string(lifted.seed) + "; reduced " +
             std::to_string(before.operations) + " steps to " + std::to_string(after.operations) + ", " +
             std::to_string(before.spans()) + " spans to " + std::to_string(after.spans()) + " in " +
             std::to_string(lifted.run.shrunk.runs) + " runs");
    out.line("written: " + options.out + "; play it: urtrs-sim run --tape " + options.out + " --verbose");
  }
  out.finish(exit_ok);
}

int lift_file(const LiftCommandOptions& options) {
  if (!may_write(options.out)) return exit_usage;
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  trace::FdSource source(file.fd());
  const auto trace = load_machines(source);
  if (!trace) {
    error(options.file + ": " + trace.error());
    return exit_cannot_read;
  }
  warn_of_damage(options.file, trace->damage, trace->records);
  LiftOptions how;
  how.seeds = options.seeds;
  how.seconds = options.seconds;
  const bool tty = ::isatty(STDERR_FILENO) == 1;
  if (tty) how.progress = [](const std::string& what) { std::fprintf(stderr, "\r\x1b[K%s", what.c_str()); };
  const Lifted lifted = lift(*trace, how);
  if (tty) std::fputs("\r\x1b[K", stderr);
  if (!lifted.error.empty()) {
    error(options.file + ": " + lifted.error);
    return exit_cannot_read;
  }
  if (lifted.fails) {
    if (!may_write(options.out)) return exit_usage;
    const tools::TapeFile tape{lifted.seed, lifted.run.last.signature, lifted.run.last.seen,
                               lifted.run.shrunk.tape, lifted.scenario};
    if (const int failed = tools::write_tape(options.out, tape)) {
      error("cannot write " + options.out + ": " + std::strerror(failed));
      return exit_usage;
    }
  }
  print(options, lifted);
  if (lifted.fails) return exit_bad_trace;
  return lifted.sound ? exit_ok : kNotLifted;
}

}  // namespace

void add_lift(CLI::App& app, Runner& runner) {
  add_command<LiftCommandOptions>(
      app, runner, "lift", "Search for a simulated run that fails as the trace of a client does",
      std::string(
          "Its requests, path losses and operators are played to real drivers over a simulated network, "
          "with\n"
          "many different delays, until a rule is broken; that world is then made small.\n\n"
          "Example:\n  urtrs-replay lift run.rtrc --out run.tape --seeds 5\n\n"
          "Exit codes: 0 no such world fails, and nothing is wrong with the trace, 1 one fails and is "
          "written,\n"
          "2 wrong usage, 3 no judgement, 4 something is wrong with the trace, but no world shows it."),
      [](CLI::App& command, LiftCommandOptions& options) {
        command.add_option("FILE", options.file, "Trace file, - for standard input")->required();
        command.add_option("--out", options.out, "Tape to write; no file is replaced")->required();
        command.add_option("--seeds", options.seeds, "Delays to try for each guess")
            ->capture_default_str()
            ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
        command.add_option("--time", options.seconds, "Stop after so many seconds")
            ->check(check_seconds)
            ->capture_default_str();
        command.add_flag("--json", options.json, "The result as a JSON object");
      },
      lift_file);
}

}  // namespace rtrs::tool
