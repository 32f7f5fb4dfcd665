#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/judge/law_check.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/hang_output.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

namespace sequence = tools::sequence;

struct CheckOptions {
  std::vector<std::string> files;
  bool json = false;
  bool rules = false;
  std::size_t show = 3;
  std::uint64_t heartbeat_ms = 0;
  TimeOptions times;
  std::string follow;
  double hang_after = kHangAfterSeconds;
};

struct Checked {
  std::string file;
  trace::TraceCheck result;
  std::vector<trace::Pause> pauses;
};

std::string machine_text(unsigned machine) {
  return "instance " + std::to_string(machine);
}

void print_finding(Output& out, const spec::Finding& finding, const trace::TimeBase& times) {
  const spec::RuleInfo& rule = spec::info_of(finding.rule);
  out.line("  record " + std::to_string(finding.seq) + ", " + times.with_unit(finding.now) + ", " +
           machine_text(finding.machine) + ": " + std::string(rule.id) + " (" + std::string(rule.oracle) +
           ")");
  out.line("    rule:    " + std::string(rule.text));
  out.line(std::string("    seen:    ") + (finding.by_peer ? "from the peer: " : "") + finding.seen);
  out.line("    allowed: " + finding.allowed);
  out.line("    source:  " + std::string(rule.source));
}

// Returns the number of judged machines. State machines whose beginning is not in the trace are included,
// because they are judged as far as their state is known.
std::uint64_t machines_of(const trace::TraceCheck& result) {
  return result.coverage.machines + result.coverage.without_beginning + result.coverage.resumed;
}

void print_file(Output& out, const Checked& checked, std::size_t show) {
  const trace::TraceCheck& result = checked.result;
  out.line(checked.file + ": " + to_string(result.verdict) + ", " + std::to_string(result.records) +
           " records, " + std::to_string(machines_of(result)) + " machines, " +
           std::to_string(result.coverage.wire) + " wire notes, at most " +
           std::to_string(result.most_states) + " states at a time");
  for (std::size_t at = 0; at < std::min(show, result.findings.size()); ++at)
    print_finding(out, result.findings[at], result.times);
  if (result.violations > show)
    out.line("  and " + std::to_string(result.violations - show) +
             " more violations, which may be consequences");
  print_pauses(out, checked.pauses, result.times, "  ");
  for (const std::string& judged : result.judged) out.line("  judged: " + judged);
  for (const std::string& doubt : result.doubts) out.line("  not judged: " + doubt);
}

// Result of comparing both ends of the connections: the verdict, and the reasons why the comparison is
// incomplete.
struct BothSides {
  trace::LawCheck laws;
  std::vector<std::string> doubts;
};

BothSides both_sides(const std::vector<Checked>& all, trace::LawCheck laws) {
  BothSides both{std::move(laws), {}};
  if (both.laws.error != 0) {
    both.doubts.push_back(std::string("the messages do not fit into a temporary file (") +
                          std::strerror(both.laws.error) + "), so the two sides were not compared");
    both.laws = {};
    return both;
  }
  for (const unsigned stranger : both.laws.strangers)
    both.doubts.push_back("no connection of " + all[stranger].file +
                          " has its other end in another trace, so it may be from another run; the two sides "
                          "were not compared");
  if (both.laws.unproven != 0)
    both.doubts.push_back(std::to_string(both.laws.unproven) +
                          " messages arrived with different content than was sent; an older copy of a "
                          "request, or a request that the traces do not have, may have overwritten it");
  return both;
}

std::string place_text(const std::vector<Checked>& all, const trace::LawPlace& place) {
  return all[place.trace].file + " record " + std::to_string(place.record);
}

std::string places_text(const std::vector<Checked>& all, const trace::LawFinding& finding) {
  return "received as " + place_text(all, finding.received) +
         (finding.sent ? ", sent as " + place_text(all, *finding.sent) : "");
}

// The violation that comes first in corrected time; later ones may be its consequences.
struct First {
  const Checked* file = nullptr;
  std::uint64_t record = 0;
  std::uint64_t time = 0;
  std::int64_t since_start() const { return static_cast<std::int64_t>(time) - file->result.times.zero(); }
};

First first_violation(const std::vector<Checked>& all, const BothSides& both) {
  First first;
  const auto take = [&](const Checked& file, std::uint64_t record, std::uint64_t time) {
    const First one{&file, record, time};
    if (first.file == nullptr || one.since_start() < first.since_start()) first = one;
  };
  for (const Checked& one : all)
    for (const spec::Finding& finding : one.result.findings) take(one, finding.seq, finding.now);
  for (const trace::LawFinding& finding : both.laws.findings)
    take(all[finding.received.trace], finding.received.record, finding.received.time);
  return first;
}

void print_laws(Output& out, const std::vector<Checked>& all, const BothSides& both, std::size_t show) {
  const trace::LawCheck& laws = both.laws;
  for (const unsigned capture : laws.shadowed)
    out.line("both sides: " + all[capture].file +
             " is a capture and was not compared, because the trace of its client was");
  for (const std::string& doubt : both.doubts) out.line("both sides: not judged: " + doubt);
  if (laws.pairs == 0) {
    if (laws.silent)
      out.line("both sides: not compared, because no connection has a message");
    else if (all.size() > 1 && !laws.without_setup.empty())
      out.line("both sides: not compared, because " + all[laws.without_setup.front()].file +
               " has the setup of no connection: it began later, or it has no wire notes");
    else if (laws.one_sided)
      out.line(std::string("both sides: not compared, because no trace of a ") +
               (laws.clients ? "server" : "client") + " was given");
    else if (all.size() > 1 && both.doubts.empty())
      out.line(
          "both sides: not compared, because each connection misses messages or has several possible peers");
    return;
  }
  out.line("both sides: " + std::to_string(laws.pairs) + " connections, " + std::to_string(laws.messages) +
           " messages, " + std::to_string(laws.contents) + " of them with their content, " +
           std::to_string(laws.uncompared) + " without it, " + std::to_string(laws.violations) +
           " violations of the laws of reliable connections");
  for (std::size_t at = 0; at < std::min(show, laws.findings.size()); ++at)
    out.line("  A" + std::to_string(laws.findings[at].law) + ": " + laws.findings[at].text + ", " +
             places_text(all, laws.findings[at]));
}

nlohmann::json json_of(const spec::Finding& finding) {
  const spec::RuleInfo& rule = spec::info_of(finding.rule);
  return {{"record", finding.seq},     {"time", finding.now},   {"instance", finding.machine},
          {"rule", rule.id},           {"oracle", rule.oracle}, {"text", rule.text},
          {"source", rule.source},     {"seen", finding.seen},  {"allowed", finding.allowed},
          {"by_peer", finding.by_peer}};
}

nlohmann::json json_of(const Checked& checked) {
  const trace::TraceCheck& result = checked.result;
  nlohmann::json findings = nlohmann::json::array();
  for (const spec::Finding& finding : result.findings) findings.push_back(json_of(finding));
  return {{"file", checked.file},
          {"verdict", to_string(result.verdict)},
          {"violations", result.violations},
          {"findings", findings},
          {"pauses", pauses_json(checked.pauses)},
          {"judged", result.judged},
          {"not_judged", result.doubts},
          {"records", result.records},
          {"machines", machines_of(result)},
          {"events", result.coverage.events},
          {"wire_notes", result.coverage.wire},
          {"connections", result.wire.connections + result.wire.resumed},
          {"most_states", result.most_states}};
}

nlohmann::json json_of(const std::vector<Checked>& all, const trace::LawPlace& place) {
  return {{"file", all[place.trace].file}, {"record", place.record}};
}

nlohmann::json json_of(const std::vector<Checked>& all, const BothSides& both) {
  const trace::LawCheck& laws = both.laws;
  nlohmann::json findings = nlohmann::json::array();
  for (const trace::LawFinding& finding : laws.findings) {
    nlohmann::json one = {{"law", "A" + std::to_string(finding.law)},
                          {"text", finding.text},
                          {"received", json_of(all, finding.received)}};
    if (finding.sent) one["sent"] = json_of(all, *finding.sent);
    findings.push_back(one);
  }
  nlohmann::json captures = nlohmann::json::array();
  for (const unsigned capture : laws.shadowed) captures.push_back(all[capture].file);
  return {{"connections", laws.pairs},
          {"captures_not_compared", captures},
          {"messages", laws.messages},
          {"contents", laws.contents},
          {"contents_not_judged", laws.uncompared},
          {"contents_unproven", laws.unproven},
          {"one_sided", laws.one_sided},
          {"not_judged", both.doubts},
          {"violations", laws.violations},
          {"findings", findings}};
}

// Returns the worst verdict. The order is violating, inconclusive, conforming. `hangs`: requests are
// unanswered, which no rule judges.
trace::CheckVerdict overall(const std::vector<Checked>& all, const BothSides& both, bool hangs) {
  using Verdict = trace::CheckVerdict;
  Verdict verdict = both.doubts.empty() && !hangs ? Verdict::conforming : Verdict::inconclusive;
  for (const Checked& one : all) {
    if (one.result.verdict == Verdict::violating) return Verdict::violating;
    if (one.result.verdict == Verdict::inconclusive) verdict = Verdict::inconclusive;
  }
  return both.laws.violations != 0 ? Verdict::violating : verdict;
}

int code_of(trace::CheckVerdict verdict) {
  switch (verdict) {
    case trace::CheckVerdict::conforming:
      return exit_ok;
    case trace::CheckVerdict::violating:
      return exit_bad;
    case trace::CheckVerdict::inconclusive:
      break;
  }
  return exit_cannot_read;
}

// Gives the times of all traces a common origin if a time will be printed. Returns false after an error.
bool set_times(const CheckOptions& options, bool hangs, std::vector<Checked>& all) {
  const bool several = all.size() > 1 && std::none_of(all.begin(), all.end(),
                                                      [](const Checked& one) { return one.file == "-"; });
  if (several && (hangs || std::any_of(all.begin(), all.end(), [](const Checked& one) {
                    return one.result.violations != 0 || !one.pauses.empty();
                  }))) {
    int code = exit_ok;
    const sequence::StoryReader reader(options.files, {}, code);
    for (std::size_t i = 0; i < std::min(all.size(), reader.story().files.size()); ++i)
      all[i].result.times = reader.story().files[i].times;
  }
  for (Checked& one : all) {
    if (!options.times.wall || one.result.times.use_wall()) continue;
    error(one.file + " does not say at what wall time it was recorded; use seconds, without --wall");
    return false;
  }
  return true;
}

int check(const CheckOptions& options) {
  if (options.rules) {
    Output out;
    std::string table = spec::rules_markdown();
    table.pop_back();
    out.line(table);
    return out.finish(exit_ok);
  }
  if (options.files.empty()) {
    error("check needs a trace file; see urtrs-replay check --help");
    return exit_usage;
  }
  if (given_twice(options.files)) return exit_usage;
  std::vector<Checked> all;
  trace::LawCollector collector;
  trace::HangCollector hangs;
  for (const std::string& name : options.files) {
    InputFile file(name, patience_of(options.follow));
    if (!file.is_open()) return exit_usage;
    Progress progress(file.size(), true);
    all.push_back({name,
                   trace::check_trace(
                       file.source(), &collector, [&](std::uint64_t bytes) { progress.at(bytes); },
                       options.heartbeat_ms * 1'000'000, &hangs),
                   {}});
    all.back().pauses = hangs.pauses(all.size() - 1);
  }
  const BothSides both = both_sides(all, collector.judge());
  const std::vector<trace::Unanswered> unanswered = hangs.unanswered(nanos_of(options.hang_after));
  const trace::CheckVerdict verdict = overall(all, both, !unanswered.empty());
  if ((!options.json || verdict == trace::CheckVerdict::violating) &&
      !set_times(options, !unanswered.empty() || both.laws.violations != 0, all))
    return exit_usage;
  const First first = first_violation(all, both);
  Output out;
  if (options.json) {
    nlohmann::json traces = nlohmann::json::array();
    for (const Checked& one : all) traces.push_back(json_of(one));
    nlohmann::json json{{"schema_version", 1},
                        {"verdict", to_string(verdict)},
                        {"traces", traces},
                        {"unanswered", unanswered_json(unanswered, options.files)},
                        {"laws", json_of(all, both)}};
    if (first.file != nullptr) json["first"] = {{"file", first.file->file}, {"record", first.record}};
    out.line(json.dump());
  } else {
    out.line(times_line(all.front().result.times));
    for (const Checked& one : all) print_file(out, one, options.show);
    print_laws(out, all, both, options.show);
    std::vector<trace::TimeBase> times;
    for (const Checked& one : all) times.push_back(one.result.times);
    print_unanswered(out, unanswered, times, options.files, "unanswered: ");
    if (first.file != nullptr && all.size() > 1)
      out.line("first violation: " + first.file->file + " record " + std::to_string(first.record));
    out.line(std::string("verdict: ") + to_string(verdict));
  }
  return out.finish(code_of(verdict));
}

}  // namespace

void add_check(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, CheckOptions& options) {
    add_traces(command, "FILE", options.files, "Trace files: one side, or both sides of the same run");
    command.add_flag("--json", options.json, "The judgement as a JSON object");
    command.add_option("--show", options.show, "Violations to print for each file (default 3)")
        ->type_name("N");
    command
        .add_option("--heartbeat-interval-ms", options.heartbeat_ms,
                    "Heartbeat interval of both peers in a capture, where it is unknown (kernel: 5000); "
                    "without it, the frequency of heartbeats there is not judged")
        ->check(CLI::Range(1, 3'600'000))
        ->type_name("MS");
    add_hang_after(command, options.hang_after);
    add_follow(command, options.follow);
    command.add_flag("--rules", options.rules, "Print the table of all rules instead");
    add_wall(command, options.times);
  };
  add_command<CheckOptions>(
      app, runner, "check", "Judge a trace by the protocol: conforming, violating or inconclusive",
      "For each trace: its records, the machines (sessions) that were judged, its wire notes (messages), the "
      "largest number of states that the specification considered possible at once; then what was judged, "
      "and what was not and why. Of both sides: connections that were paired, messages that were compared, "
      "how many of them with their content and how many without it, violations of the laws of reliable "
      "connections. Then requests that the end of the traces left without an answer and what they wait for: "
      "with them, traces are inconclusive at best.\n"
      "\n"
      "Examples:\n"
      "  urtrs-replay check run.rtrc\n"
      "  urtrs-replay check client.rtrc server.rtrc --json\n"
      "  urtrs-replay check capture.rtrc --heartbeat-interval-ms 5000\n"
      "  urtrs-replay check run.rtrc --follow=10s\n"
      "\n"
      "Exit codes: 0 conforming, 1 violating, 2 wrong usage, 3 inconclusive (something is missing; the "
      "output says what).",
      bind, check);
}

}  // namespace rtrs::replay_tool
