#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/record/writer.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/minimize/minimize.hpp"
#include "tools/lib/trace/replay/write_rerun.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/hang_output.hpp"

namespace rtrs::replay_tool {
namespace {

struct MinOptions {
  std::string file;
  std::string out;
  std::string looks = "all";
  std::string reference;
  std::string predicate;
  std::vector<std::string> shows;
  std::string unanswered;  // record of the request, or kOldestRequest
  double hang_after = kHangAfterSeconds;
  double seconds = 60;
  std::uint64_t max_size = kMaxTraceBytes;
  bool hashes = false;
  bool rerun = false;
  bool json = false;
};

constexpr const char* kOldestRequest = "oldest";

// Returns the session state machine of the trace if there is only one. Without any session, returns the only
// machine, as in a minimised trace of block devices. Returns null if the choice is ambiguous.
const tools::MachineTrace* only_machine(const tools::LoadedTrace& trace) {
  const auto is_session = [](const tools::MachineTrace& machine) {
    return std::holds_alternative<tools::ClientInputs>(machine.machine) ||
           std::holds_alternative<tools::ServerInputs>(machine.machine);
  };
  const auto sessions = std::count_if(trace.machines.begin(), trace.machines.end(), is_session);
  if (sessions == 1) return &*std::find_if(trace.machines.begin(), trace.machines.end(), is_session);
  return sessions == 0 && trace.machines.size() == 1 ? &trace.machines[0] : nullptr;
}

bool is_dump(std::string_view bytes) {
  trace::MemorySource source(bytes);
  trace::Reader reader(source);
  return reader.open() == trace::Reader::Status::ok && (reader.header().flags & trace::action_counts) != 0;
}

int rerun(const MinOptions& options, std::string_view bytes) {
  trace::MemorySource source(bytes);
  if (is_dump(bytes)) {
    const std::string why = trace::write_rerun(source, options.out);
    if (!why.empty()) error(options.file + ": " + why);
    return why.empty() ? exit_ok : exit_cannot_read;
  }
  const auto trace = tools::load_machines(source);
  if (!trace) {
    error(options.file + ": " + trace.error());
    return exit_cannot_read;
  }
  warn_of_damage(options.file, trace->damage, trace->records);
  const tools::MachineTrace* const machine = only_machine(*trace);
  if (machine == nullptr) {
    error("--rerun takes a trace of one session");
    return exit_usage;
  }
  tools::Inputs all(machine->size());
  std::iota(all.begin(), all.end(), 0U);
  tools::RunOptions how;
  how.hashes = options.hashes;
  const tools::Written written = tools::write_run(*machine, all, options.out, how);
  if (written.error == 0) return trace->damage.empty() ? exit_ok : exit_damaged;
  error("cannot write " + options.out + ": " + trace::file_error_text(written.error));
  return exit_usage;
}

// Replaces the actions in the minimised trace by those of the reference build, so that a replay with this
// core diverges.
bool told_by_reference(const MinOptions& options, const std::string& from, const std::string& to) {
  const std::string command = options.reference + " min --rerun " + (options.hashes ? "--hashes " : "") +
                              tools::quoted(from) + " --out " + tools::quoted(to);
  return std::system(command.c_str()) == 0;
}

void print_sound(Output& out, const MinOptions& options) {
  if (!options.reference.empty())
    return out.line("this core and " + options.reference + " behave identically: nothing to minimise"),
           void();
  if (!options.unanswered.empty())
    return out.line("every request is answered, or is younger at the end than --hang-after"), void();
  if (!options.predicate.empty() || !options.shows.empty())
    return out.line("the whole trace does not show what is searched for"), void();
  if (options.looks == "replay")
    return out.line("this core does what was recorded: nothing to minimise"), void();
  if (options.looks == "invariant")
    return out.line("the core breaks no invariant on these inputs: nothing to minimise"), void();
  out.line(
      "the trace conforms: nothing to minimise; give --reference, another build to compare with, "
      "--unanswered "
      "for a hang, or --predicate or --shows, what is to be kept");
}

void print(const MinOptions& options, const tools::Minimized& result) {
  Output out;
  if (options.json) {
    const nlohmann::json json = {{"schema_version", 1},
                                 {"fails", result.fails},
                                 {"failure", result.failure},
                                 {"seen", result.seen},
                                 {"instance", result.instance},
                                 {"recorded", result.recorded},
                                 {"records_before", result.records_before},
                                 {"records", result.records},
                                 {"inputs_before", result.inputs_before},
                                 {"inputs", result.inputs},
                                 {"runs", result.runs},
                                 {"seconds", result.seconds},
                                 {"complete", result.complete},
                                 {"damage", result.damage},
                                 {"file", options.out}};
    out.line(json.dump());
  } else if (!result.fails) {
    if (!result.damage.empty()) out.line("the trace is damaged; of what can be read of it:");
    print_sound(out, options);
  } else {
    char took[32];
    std::snprintf(took, sizeof took, "%.1f s", result.seconds);
    out.line(result.failure);
    if (!result.seen.empty()) out.line("  " + result.seen);
    out.line(tools::with_commas(result.records_before) + " records -> " + tools::with_commas(result.records) +
             ", " + tools::with_commas(result.runs) + " attempts, " + took +
             (result.complete ? "" : "; time ran out, more is possible with a longer --time"));
    if (result.recorded && result.inputs != 0)
      out.line("the last step is as it was recorded: this core does something else");
    out.line("written: " + options.out + "; see urtrs-replay cat " + options.out);
  }
  out.finish(exit_ok);
}

// Checks that at most one of the options that define what a failure is was given.
bool is_clear(const MinOptions& options) {
  const int given = (options.reference.empty() ? 0 : 1) + (options.predicate.empty() ? 0 : 1) +
                    (options.shows.empty() ? 0 : 1) + (options.unanswered.empty() ? 0 : 1) +
                    (options.looks == "all" ? 0 : 1);
  if (given > 1) error("give one of --for, --reference, --predicate, --shows and --unanswered");
  return given <= 1;
}

tools::MinimizeOptions how_to(const MinOptions& options, const std::string& directory) {
  tools::MinimizeOptions how;
  how.directory = directory;
  how.seconds = options.seconds;
  how.hashes = options.hashes;
  if (options.looks == "invariant") how.looks = tools::MinimizeOptions::Looks::invariant;
  if (options.looks == "check") how.looks = tools::MinimizeOptions::Looks::check;
  if (options.looks == "replay") how.looks = tools::MinimizeOptions::Looks::replay;
  if (!options.reference.empty()) how.judge = tools::judge_by_reference(options.reference);
  if (!options.predicate.empty()) how.judge = tools::judge_by_command(options.predicate, options.seconds);
  if (!options.shows.empty()) how.judge = tools::judge_by_marks(options.shows);
  return how;
}

// Sets the judge for --unanswered. Returns an error if the trace has no such request.
std::string want_unanswered(const MinOptions& options, std::string_view bytes, tools::MinimizeOptions& how) {
  tools::HangWanted wanted;
  wanted.hang_after = nanos_of(options.hang_after);
  trace::MemorySource source(bytes);
  const auto hangs = trace::hangs_of(source);
  if (!hangs) return hangs.error();
  const auto all = hangs->unanswered(wanted.hang_after);
  const bool oldest = options.unanswered == kOldestRequest;
  const auto found = std::find_if(all.begin(), all.end(), [&](const trace::Unanswered& one) {
    return oldest || std::to_string(one.request.begun.record) == options.unanswered;
  });
  if (found != all.end()) {
    wanted.reads = found->request.reads;
    wanted.bytes = found->request.bytes;
  } else if (!oldest) {
    return "record " + options.unanswered + " is no unanswered request; `urtrs-replay stat` lists them";
  }
  how.judge = tools::judge_by_unanswered(wanted);
  return {};
}

// Copies the result to the output file.
bool keep(const MinOptions& options, const tools::Minimized& result) {
  std::string from = result.file;
  const std::string told = result.file + ".reference";
  if (!options.reference.empty() && told_by_reference(options, result.file, told)) from = told;
  const InputFile file(from);
  if (!file.is_open()) return false;
  const int fd = create_output(options.out, 0600);
  if (fd < 0) return false;
  trace::FdSource source(file.fd());
  trace::FdSink sink(fd);
  char part[1 << 16];
  std::ptrdiff_t got = 0;
  int wrong = 0;
  while (wrong == 0 && (got = source.read(part, sizeof part)) > 0)
    wrong = sink.write(part, static_cast<std::size_t>(got));
  if (got < 0) wrong = static_cast<int>(-got);
  if (wrong != 0) error("cannot write " + options.out + ": " + std::strerror(wrong));
  return wrong == 0;
}

int minimize_file(const MinOptions& options) {
  if (!is_clear(options) || !may_write(options.out)) return exit_usage;
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  std::string bytes;
  if (const int wrong = read_whole(options.file, file, options.max_size, bytes); wrong != exit_ok)
    return wrong;
  if (options.rerun) return rerun(options, bytes);
  const tools::ScratchFolder workplace;
  tools::MinimizeOptions how = how_to(options, workplace.path().string());
  if (!options.unanswered.empty()) {
    if (const std::string wrong = want_unanswered(options, bytes, how); !wrong.empty()) {
      error(options.file + ": " + wrong);
      return exit_usage;
    }
  }
  tools::ProgressLine line;
  how.progress = [&line](std::size_t left, std::uint64_t runs) {
    line.show(tools::with_commas(runs) + " attempts, " + tools::with_commas(left) + " records left");
  };
  tools::Minimized result = tools::minimize(bytes, how);
  line.clear();
  if (!result.error.empty()) {
    error(options.file + ": " + result.error);
    return exit_cannot_read;
  }
  warn_of_damage(options.file, result.damage, result.records_before);
  if (result.fails && !keep(options, result)) return exit_usage;
  print(options, result);
  if (result.fails) return exit_bad;
  return result.damage.empty() ? exit_ok : exit_damaged;
}

}  // namespace

void add_min(CLI::App& app, Runner& runner) {
  add_command<MinOptions>(
      app, runner, "min", "The shortest trace that still fails",
      std::string(
          "A failure is found by running this core again (it stops, or breaks an invariant or a rule of "
          "`check`), by comparing it with the recording (`replay`), and by `check` of the records. The same "
          "failure must remain while inputs are removed.\n"
          "With --reference the two builds must behave differently; the result has the behaviour of the "
          "reference. --shows keeps records in the order given, such as --shows FailedOver --shows 'Complete "
          "result=ok'.\n"
          "\n"
          "Examples:\n"
          "  urtrs-replay min run.rtrc --out short.rtrc\n"
          "  urtrs-replay min run.rtrc --out shown.rtrc --shows Complete\n"
          "  urtrs-replay min run.rtrc --out hang.rtrc --unanswered\n"
          "  urtrs-replay min run.rtrc --out asked.rtrc \\\n"
          "      --predicate 'urtrs-replay grep {} --event Complete'\n"
          "\n"
          "Exit codes: 0 nothing fails, 1 it fails and the short trace is written, 2 wrong usage, 3 no "
          "judgement, 5 the trace is damaged, and nothing fails before that."),
      [](CLI::App& command, MinOptions& options) {
        add_trace(command, options.file);
        command.add_option("--out", options.out, "Trace file to write; no file is replaced")->required();
        command.add_option("--for", options.looks, "Which failure to look for")
            ->check(CLI::IsMember({"all", "invariant", "check", "replay"}))
            ->capture_default_str();
        command.add_option("--reference", options.reference, "Command of another build of urtrs-replay");
        command
            .add_option("--predicate", options.predicate,
                        "Shell command that exits with 0 for traces ({}) that show the failure")
            ->type_name("COMMAND");
        command.add_option("--shows", options.shows, "EVENT or 'EVENT FIELD=VALUE...' to keep")
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->type_name("MARK");
        command
            .add_flag("--unanswered{oldest}", options.unanswered,
                      "The failure is a request without an answer: the oldest, or --unanswered=RECORD")
            ->type_name("");
        add_hang_after(command, options.hang_after);
        add_duration(command, "--time", options.seconds, "Stop after this time and write the result so far");
        add_max_size(command, options.max_size);
        command.add_flag("--hashes", options.hashes, "Write the state after every input too");
        command.add_flag("--rerun", options.rerun,
                         "Only write what this core does on the inputs of the one session");
        command.add_flag("--json", options.json, "The result as a JSON object");
      },
      minimize_file);
}

}  // namespace rtrs::replay_tool
