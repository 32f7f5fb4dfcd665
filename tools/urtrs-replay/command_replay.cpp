#include "tools/lib/trace/replay/replay.hpp"

#include <cinttypes>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/replay/abort_guard.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

struct ReplayCommandOptions {
  std::string file;
  bool json = false;
  std::optional<std::uint64_t> stop_at;
  std::optional<std::uint64_t> diff_from;
  std::optional<std::uint16_t> instance;
  bool state = false;
};

// The states of all state machines before one record.
struct Visit {
  std::uint64_t record = 0;
  std::vector<trace::StateAt> states;
};

int code_of(const trace::ReplayResult& result) {
  switch (result.verdict) {
    case trace::Verdict::identical:
      return exit_ok;
    case trace::Verdict::diverged:
      return exit_bad;
    case trace::Verdict::damaged:
      return exit_damaged;
    case trace::Verdict::not_replayable:
      break;
  }
  return exit_cannot_read;
}

nlohmann::json as_json(const trace::ReplayResult& result) {
  nlohmann::json json = {{"schema_version", 1},
                         {"verdict", to_string(result.verdict)},
                         {"records", result.records},
                         {"machines", result.machines},
                         {"inputs", result.inputs},
                         {"actions", result.actions},
                         {"state_hashes", result.state_hashes},
                         {"state_hashes_of_another_version", result.other_hashes},
                         {"snapshots", result.snapshots},
                         {"skipped", result.skipped},
                         {"stopped", result.stopped},
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
  return json;
}

std::string counts_text(const trace::ReplayResult& result) {
  return std::to_string(result.records) + " records, " + std::to_string(result.machines) +
         (result.machines == 1 ? " machine, " : " machines, ") + std::to_string(result.inputs) + " inputs, " +
         std::to_string(result.actions) +
         (result.counts_only ? " actions counted, " : " actions compared, ") +
         std::to_string(result.state_hashes) + " state hashes compared" +
         (result.other_hashes == 0 ? ""
                                   : ", " + std::to_string(result.other_hashes) +
                                         " not: the version that recorded them has other configurations") +
         (result.skipped == 0
              ? ""
              : ", " + std::to_string(result.skipped) + " records before the first known state skipped");
}

void print_divergence(Output& out, const trace::Divergence& at, const trace::TimeBase& times) {
  out.line("first divergence: record " + std::to_string(at.seq) + ", " + times.with_unit(at.time) +
           ", instance " + std::to_string(at.instance) + ", in answer to record " +
           std::to_string(at.input_seq));
  out.line("  recorded: " + at.recorded);
  out.line("  re-run:   " + at.rerun);
  out.line("before it:");
  for (const std::string& line : at.before) out.line("  " + line);
}

const trace::StateText* state_of(const Visit& visit, InstanceId instance) {
  for (const trace::StateAt& state : visit.states) {
    if (state.instance == instance) return &state.text;
  }
  return nullptr;
}

// Returns what changed in the states between two visits, by instance. For a new or removed state machine, its
// whole state counts as changed.
std::map<InstanceId, std::vector<std::string>> changes(const Visit& from, const Visit& to) {
  std::map<InstanceId, std::vector<std::string>> all;
  const trace::StateText none;
  for (const trace::StateAt& state : to.states) {
    const trace::StateText* before = state_of(from, state.instance);
    all[state.instance] = trace::differences(before != nullptr ? *before : none, state.text);
  }
  for (const trace::StateAt& state : from.states) {
    if (state_of(to, state.instance) == nullptr) all[state.instance] = trace::differences(state.text, none);
  }
  return all;
}

bool wanted(const ReplayCommandOptions& options, InstanceId instance) {
  return !options.instance || *options.instance == instance;
}

void print_states(Output& out, const ReplayCommandOptions& options, const std::vector<Visit>& visits) {
  if (visits.empty()) return;
  const Visit& last = visits.back();
  const std::string place = "before record " + std::to_string(last.record);
  if (options.diff_from) {
    const Visit& first = visits.front();
    for (const auto& [instance, lines] : changes(first, last)) {
      if (!wanted(options, instance)) continue;
      out.line("#" + std::to_string(instance) + " from record " + std::to_string(first.record) + " to " +
               std::to_string(last.record) + (lines.empty() ? ": nothing changed" : ":"));
      for (const std::string& line : lines) out.line("  " + line);
    }
  }
  if (!options.state) return;
  for (const trace::StateAt& state : last.states) {
    if (!wanted(options, state.instance)) continue;
    out.line("#" + std::to_string(state.instance) + " " + place + ":");
    for (const auto& [name, value] : state.text) out.line("  " + name + " = " + value);
  }
}

nlohmann::json states_json(const ReplayCommandOptions& options, const std::vector<Visit>& visits) {
  nlohmann::json json = {{"record", visits.back().record}};
  if (options.diff_from) {
    json["from_record"] = visits.front().record;
    for (const auto& [instance, lines] : changes(visits.front(), visits.back())) {
      if (wanted(options, instance)) json["changes"][std::to_string(instance)] = lines;
    }
  }
  if (options.state) {
    for (const trace::StateAt& state : visits.back().states) {
      if (!wanted(options, state.instance)) continue;
      nlohmann::json& fields = json["state"][std::to_string(state.instance)];
      for (const auto& [name, value] : state.text) fields[name] = value;
    }
  }
  return json;
}

void print_verdict(Output& out, const ReplayCommandOptions& options, const trace::ReplayResult& result) {
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016" PRIx64, result.chain_hash);
  switch (result.verdict) {
    case trace::Verdict::identical:
      if (result.stopped) {
        out.line("identical up to there: " + counts_text(result));
      } else {
        out.line("identical: " + counts_text(result) + ", chain hash " + hash);
      }
      break;
    case trace::Verdict::diverged:
      out.line(times_line(result.times));
      print_divergence(out, result.divergence, result.times);
      break;
    case trace::Verdict::damaged:
      out.line("identical as far as it can be read: " + counts_text(result));
      error(options.file + ", byte " + std::to_string(result.stop.offset) + ": " + result.stop.reason);
      break;
    case trace::Verdict::not_replayable:
      error(options.file + " cannot be replayed: " + result.why +
            "; `urtrs-replay cat` may still print it. A trace that is recorded by this version can be "
            "replayed from its beginning or its first snapshot on");
      break;
  }
}

int replay(const ReplayCommandOptions& options) {
  if (options.diff_from && options.stop_at && *options.diff_from > *options.stop_at) {
    error("--diff-state must name a record before that of --stop-at");
    return exit_usage;
  }
  InputFile file(options.file);
  if (!file.is_open()) return exit_usage;
  Progress progress(file.size(), true);
  trace::ReplayOptions replay_options;
  replay_options.progress = [&progress](std::uint64_t bytes) { progress.at(bytes); };
  replay_options.position = &trace::AbortGuard::position();
  replay_options.blank = trace::blank_core_machines();
  std::vector<Visit> visits;
  if (options.diff_from) replay_options.visit.push_back(*options.diff_from);
  if (options.stop_at || options.state || options.diff_from) {
    replay_options.visit.push_back(options.stop_at.value_or(kNever));
  }
  replay_options.on_visit = [&visits](std::uint64_t record, std::vector<trace::StateAt> states) {
    visits.push_back({record, std::move(states)});
  };
  std::optional<trace::AbortGuard> guard(std::in_place);
  const trace::ReplayResult result = trace::replay(file.source(), trace::core_machines(), replay_options);
  guard.reset();

  Output out;
  if (options.json) {
    nlohmann::json json = as_json(result);
    if (!visits.empty()) json["at"] = states_json(options, visits);
    out.line(json.dump());
  } else {
    print_verdict(out, options, result);
    print_states(out, options, visits);
  }
  return out.finish(code_of(result));
}

}  // namespace

void add_replay(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, ReplayCommandOptions& options) {
    add_trace(command, options.file);
    command.add_option("--stop-at", options.stop_at, "Stop before this record")->type_name("RECORD");
    command.add_flag("--state", options.state, "Print the machines' states where the replay stops");
    command.add_option("--diff-state", options.diff_from, "Print what changed since this record")
        ->type_name("RECORD");
    command.add_option("--instance", options.instance, "States of this machine only")->type_name("I");
    command.add_flag("--json", options.json, "The result as a JSON object");
  };
  add_command<ReplayCommandOptions>(
      app, runner, "replay", "Run the core again on a trace and compare",
      std::string("Examples:\n"
                  "  urtrs-replay replay run.rtrc\n"
                  "  urtrs-replay replay run.rtrc --stop-at 100 --state\n"
                  "  urtrs-replay replay run.rtrc --diff-state 99 --stop-at 100\n\n") +
          kExitCodes,
      bind, replay);
}

}  // namespace rtrs::replay_tool
