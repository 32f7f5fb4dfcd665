#include "core/trace/replay.hpp"

#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "core/trace/replay_machines.hpp"
#include "core/trace/text.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/files.hpp"

namespace rtrs::tool {
namespace {

struct ReplayCommandOptions {
  std::string file;
  bool json = false;
};

volatile std::uint64_t position = 0;

// A machine that finds an invariant broken aborts; the reader of the trace wants to know at which record.
void on_abort(int) {
  char text[96] = "urtrs-replay: the core stopped in record ";
  std::size_t end = 41;
  char digits[20];
  std::size_t count = 0;
  std::uint64_t number = position;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count != 0) text[end++] = digits[--count];
  text[end++] = '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, end);
  ::_exit(exit_bad_trace);
}

int code_of(const trace::ReplayResult& result) {
  switch (result.verdict) {
    case trace::Verdict::identical:
      return exit_ok;
    case trace::Verdict::diverged:
    case trace::Verdict::damaged:
      return exit_bad_trace;
    case trace::Verdict::not_replayable:
      break;
  }
  return exit_cannot_read;
}

std::string as_json(const trace::ReplayResult& result) {
  nlohmann::json json = {{"verdict", to_string(result.verdict)},
                         {"records", result.records},
                         {"machines", result.machines},
                         {"inputs", result.inputs},
                         {"actions", result.actions},
                         {"state_hashes", result.state_hashes},
                         {"actions_only_counted", result.counts_only}};
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, result.chain_hash);
  json["chain_hash"] = hash;
  if (result.verdict == trace::Verdict::diverged) {
    const trace::Divergence& at = result.divergence;
    json["divergence"] = {{"record", at.seq},        {"time", at.time},
                          {"instance", at.instance}, {"input_record", at.input_seq},
                          {"recorded", at.recorded}, {"rerun", at.rerun},
                          {"before", at.before}};
  }
  if (result.verdict == trace::Verdict::damaged) {
    json["stop"] = {{"offset", result.stop.offset}, {"reason", result.stop.reason}};
  }
  if (!result.why.empty()) json["why"] = result.why;
  return json.dump();
}

std::string counts_text(const trace::ReplayResult& result) {
  return std::to_string(result.records) + " records, " + std::to_string(result.machines) + " machines, " +
         std::to_string(result.inputs) + " inputs, " + std::to_string(result.actions) +
         (result.counts_only ? " actions counted, " : " actions compared, ") +
         std::to_string(result.state_hashes) + " state hashes compared";
}

void print_divergence(Output& out, const trace::Divergence& at) {
  out.line("first divergence: record " + std::to_string(at.seq) + ", " + trace::time_text(at.time) +
           " s, instance " + std::to_string(at.instance) + ", in answer to record " +
           std::to_string(at.input_seq));
  out.line("  recorded: " + at.recorded);
  out.line("  re-run:   " + at.rerun);
  out.line("before it:");
  for (const std::string& line : at.before) out.line("  " + line);
}

int replay(const ReplayCommandOptions& options) {
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  trace::FdSource source(file.fd());
  Progress progress(file.size(), true);
  trace::ReplayOptions replay_options;
  replay_options.progress = [&progress](std::uint64_t bytes) { progress.at(bytes); };
  replay_options.position = &position;
  std::signal(SIGABRT, on_abort);
  const trace::ReplayResult result = trace::replay(source, trace::core_machines(), replay_options);
  std::signal(SIGABRT, SIG_DFL);

  Output out;
  if (options.json) {
    out.line(as_json(result));
    return out.finish(code_of(result));
  }
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, result.chain_hash);
  switch (result.verdict) {
    case trace::Verdict::identical:
      out.line("identical: " + counts_text(result) + ", chain hash " + hash);
      break;
    case trace::Verdict::diverged:
      print_divergence(out, result.divergence);
      break;
    case trace::Verdict::damaged:
      out.line("identical as far as it can be read: " + counts_text(result));
      error(options.file + ", byte " + std::to_string(result.stop.offset) + ": " + result.stop.reason);
      break;
    case trace::Verdict::not_replayable:
      error(options.file + " cannot be replayed: " + result.why +
            "; `urtrs-replay cat` may still print it. A trace that is recorded to a file from the start of "
            "the program, by this version, can be replayed");
      break;
  }
  return out.finish(code_of(result));
}

}  // namespace

void add_replay(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, ReplayCommandOptions& options) {
    command.add_option("FILE", options.file, "Trace file, - for standard input")->required();
    command.add_flag("--json", options.json, "The result as a JSON object");
  };
  add_command<ReplayCommandOptions>(app, runner, "replay", "Run the core again on a trace and compare",
                                    std::string("Example:\n  urtrs-replay replay run.rtrc\n\n") + kExitCodes,
                                    bind, replay);
}

}  // namespace rtrs::tool
