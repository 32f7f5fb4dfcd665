
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/world/journal.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/choice_log/choice_log_file.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/to_scenario/trace_to_scenario.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/hang_output.hpp"

namespace rtrs::replay_tool {
namespace {

struct SimulateOptions {
  std::string file;
  std::string out;
  std::uint64_t seeds = 200;
  double seconds = 120;
  std::uint64_t max_size = kMaxTraceBytes;
  bool unanswered = false;
  double hang_after = kHangAfterSeconds;
  bool json = false;
};

void print(const SimulateOptions& options, const tools::FoundScenario& found) {
  Output out;
  const sim::LogSize& before = found.run.shrunk.before;
  const sim::LogSize& after = found.run.shrunk.after;
  if (options.json) {
    nlohmann::json json = {{"schema_version", 1}, {"fails", found.fails}, {"tried", found.tried}};
    if (!found.fails) json["why"] = found.why;
    if (found.fails) {
      json["seed"] = found.seed;
      json["guess"] = found.words;
      json["signature"] = found.run.last.signature;
      json["seen"] = found.run.last.seen;
      json["steps_before"] = before.operations;
      json["steps"] = after.operations;
      json["groups"] = after.groups();
      json["runs"] = found.run.shrunk.runs;
      json["file"] = options.out;
    }
    out.line(json.dump());
  } else if (!found.fails) {
    if (found.tried != 0)
      out.line("none of " + std::to_string(found.tried) +
               " worlds made from this trace breaks a rule; --seeds tries more of them");
    out.line(found.why);
  } else {
    out.line("fails: " + found.run.last.signature + " at " + sim::to_seconds(found.run.last.time) + ": " +
             found.run.last.seen);
    out.line("with " + found.words + ", seed " + std::to_string(found.seed) + "; reduced " +
             std::to_string(before.operations) + " steps to " + std::to_string(after.operations) + ", " +
             std::to_string(before.groups()) + " groups to " + std::to_string(after.groups()) + " in " +
             std::to_string(found.run.shrunk.runs) + " runs");
    out.line("written: " + options.out + "; play it: urtrs-sim run --choices " + options.out + " --verbose");
  }
  out.finish(exit_ok);
}

int find_scenario(const SimulateOptions& options) {
  if (!may_write(options.out)) return exit_usage;
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  std::string bytes;
  if (const int wrong = read_whole(options.file, file, options.max_size, bytes); wrong != exit_ok)
    return wrong;
  trace::MemorySource source(bytes);
  const auto trace = tools::load_machines(source);
  if (!trace) {
    error(options.file + ": " + trace.error());
    return exit_cannot_read;
  }
  warn_of_damage(options.file, trace->damage, trace->records);
  tools::ScenarioSearch how;
  how.seeds = options.seeds;
  how.seconds = options.seconds;
  if (options.unanswered) {
    trace::MemorySource again(bytes);
    const auto hangs = trace::hangs_of(again);
    if (hangs) how.unanswered = hangs->unanswered(nanos_of(options.hang_after));
    if (how.unanswered.empty()) {
      tools::FoundScenario none;
      none.why = "every request is answered, or is younger at the end than --hang-after";
      print(options, none);
      return trace->damage.empty() ? exit_ok : exit_damaged;
    }
  }
  tools::ProgressLine line;
  how.progress = [&line](const std::string& what) { line.show(what); };
  const tools::FoundScenario found = tools::find_scenario(*trace, how);
  line.clear();
  if (!found.error.empty()) {
    error(options.file + ": " + found.error);
    return exit_cannot_read;
  }
  if (found.fails) {
    if (!may_write(options.out)) return exit_usage;
    const tools::ChoiceLogFile choice_log{found.seed, found.run.last.signature, found.run.last.seen,
                                          found.run.shrunk.choice_log, found.scenario};
    if (const int failed = tools::write_choice_log(options.out, choice_log)) {
      error("cannot write " + options.out + ": " + std::strerror(failed));
      return exit_usage;
    }
  }
  print(options, found);
  if (found.fails) return exit_bad;
  if (!found.sound) return exit_not_reproduced;
  return trace->damage.empty() ? exit_ok : exit_damaged;
}

}  // namespace

void add_simulate(CLI::App& app, Runner& runner) {
  add_command<SimulateOptions>(
      app, runner, "simulate", "Search for a simulated run that fails as the trace of a client does",
      std::string("Its requests, path losses and operators are played to real drivers over a simulated "
                  "network, with many different delays, until a rule is broken; that run is then reduced. It "
                  "is written as a choice log, which `urtrs-sim run --choices` plays. With --unanswered, the "
                  "requests that the trace leaves without an answer hang there as long: storage is silent, "
                  "the server does not run, or no connection delivers.\n"
                  "\n"
                  "Example:\n"
                  "  urtrs-replay simulate run.rtrc --out run.choices --seeds 5\n"
                  "\n"
                  "Exit codes: 0 no such world fails, and nothing is wrong with the trace, 1 one fails and "
                  "is written, 2 wrong usage, 3 no judgement, 4 the trace has a failure, but no world shows "
                  "it, 5 the trace is damaged, and nothing is wrong with the records before that."),
      [](CLI::App& command, SimulateOptions& options) {
        add_trace(command, options.file);
        command.add_option("--out", options.out, "Choice log to write; no file is replaced")->required();
        command.add_option("--seeds", options.seeds, "Delays to try for each guess")
            ->capture_default_str()
            ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
        command.add_flag("--unanswered", options.unanswered,
                         "The failure is that requests of the client are not answered");
        add_hang_after(command, options.hang_after);
        add_duration(command, "--time", options.seconds, "Stop after this time");
        add_max_size(command, options.max_size);
        command.add_flag("--json", options.json, "The result as a JSON object");
      },
      find_scenario)
      ->alias("scenario")
      ->alias("lift");
}

}  // namespace rtrs::replay_tool
