#include "tools/urtrs-sim/report.hpp"

#include <cstdio>
#include <cstring>
#include <memory>

#include "sim/choices/grouped_choice.hpp"
#include "tools/lib/trace/choice_log/choice_log_file.hpp"
#include "tools/lib/trace/choice_log/schedule.hpp"
#include "tools/lib/trace/choice_log/trace_judge.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/run_page.hpp"
#include "tools/urtrs-sim/scenarios.hpp"
#include "tools/urtrs-sim/verbs_mock.hpp"

namespace rtrs::sim_tool {

namespace {

double seconds_of(Nanos time) {
  return static_cast<double>(time) / 1e9;
}

void fill_failure(const std::string& oracle, const std::string& rule, const std::string& seen, Nanos time) {
  answer()["failure"] = {{"oracle", oracle}, {"rule", rule}, {"seen", seen}, {"time_s", seconds_of(time)}};
}

void print_failure(const sim::World& world, const sim::WorldResult& result, std::uint64_t seed) {
  const sim::Failure& failure = result.failure;
  std::printf("FAIL seed=%llu oracle=%s t=%s event=%llu\n", static_cast<unsigned long long>(seed),
              sim::id_of(failure.oracle), sim::to_seconds(failure.time).c_str(),
              static_cast<unsigned long long>(failure.event));
  std::printf("  rule: %s\n  seen: %s\n  scenario: %s\n", sim::rule_of(failure.oracle), failure.text.c_str(),
              world.describe().c_str());
  std::printf("last events:\n%s", world.journal().tail(40).c_str());
  fill_failure(sim::id_of(failure.oracle), sim::rule_of(failure.oracle), failure.text, failure.time);
  answer()["failure"]["event"] = failure.event;
  answer()["world"] = world.describe();
}

int report_unwritten_trace(const sim::World& world, const sim::WorldResult& result, std::uint64_t seed) {
  complain("cannot write the trace " + result.trace_file + ": " + std::strerror(result.trace_errno) +
           " (errno " + std::to_string(result.trace_errno) + ")");
  if (!result.failed) return kUsage;
  print_failure(world, result, seed);
  return kViolated;
}

// Judges the traces by the specification. The oracles do not check all of its rules during the run.
int judge_and_report(const std::string& trace, std::uint64_t seed) {
  const auto violation = tools::judge_traces(trace);
  if (!violation) return kOk;
  std::printf("FAIL seed=%llu oracle=%s t=%s\n  rule: %s\n  seen: %s\n  at: %s\n",
              static_cast<unsigned long long>(seed), violation->oracle.c_str(),
              sim::to_seconds(violation->time).c_str(), violation->rule.c_str(), violation->seen.c_str(),
              violation->where.c_str());
  fill_failure(violation->oracle, violation->rule, violation->seen, violation->time);
  answer()["failure"]["where"] = violation->where;
  return kViolated;
}

// Returns the oracle that must fail in the scenario; an empty string if none must fail.
std::string expected_of(const std::string& scenario) {
  const sim::Directed* directed = sim::find_directed(scenario);
  return directed != nullptr && directed->text != nullptr ? directed->text->expect : "";
}

// Returns the output line for a run without failures.
std::string line_of(const sim::WorldResult& result, std::uint64_t seed) {
  char text[192];
  std::snprintf(text, sizeof text, "ok seed=%llu hash=%016llx events=%llu requests=%llu virtual=%s\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(result.hash),
                static_cast<unsigned long long>(result.events),
                static_cast<unsigned long long>(result.requests),
                sim::to_seconds(result.virtual_time).c_str());
  return text;
}

int report_expected(const sim::WorldResult& result, const std::string& expect, std::uint64_t seed,
                    std::string& ok) {
  const auto number = static_cast<unsigned long long>(seed);
  const std::string found = result.failed ? sim::id_of(result.failure.oracle) : "no rule";
  if (found == expect) {
    answer()["expected"] = expect;
    ok = "ok seed=" + std::to_string(seed) + " " + expect + " fails as expected: " + result.failure.text +
         "\n";
    return kOk;
  }
  std::printf("FAIL seed=%llu oracle=%s\n  seen: %s is broken, and the scenario expects %s\n", number,
              found.c_str(), found.c_str(), expect.c_str());
  fill_failure(found, "", found + " is broken, and the scenario expects " + expect, 0);
  answer()["expected"] = expect;
  return kViolated;
}

void note_failure(const sim::WorldResult& result, RunNotes* notes) {
  if (notes == nullptr || !result.failed) return;
  const std::string& text = result.failure.text;
  notes->failure = {result.failure.time,
                    std::string(sim::id_of(result.failure.oracle)) + ": " + text.substr(0, text.find('\n'))};
}

void fill_answer(const sim::WorldResult& result, std::uint64_t seed, const ReportOptions& given) {
  char hash[24];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(result.hash));
  answer() = {{"command", "run"},
              {"seed", seed},
              {"hash", hash},
              {"events", result.events},
              {"requests", result.requests},
              {"virtual_s", seconds_of(result.virtual_time)}};
  if (!given.scenario.empty()) answer()["scenario"] = given.scenario;
  note_failure(result, given.notes);
}

void note_faults(sim::World& world, RunNotes* notes) {
  if (notes == nullptr) return;
  world.cluster().journal.watch_faults([notes](Nanos time, const std::string& text) {
    if (notes->faults.size() < RunNotes::kMostFaults) notes->faults.push_back({time, text});
  });
}

// Runs the world. Sets `ok` to the output line for a run without failures.
int play_and_report(const ReportOptions& given, std::uint64_t& seed, std::string& ok, bool& honest) {
  sim::WorldOptions options;
  options.seed = given.seed;
  options.trace = given.trace;
  options.verbose = given.verbose;
  options.over_tcp = given.over_tcp;
  options.make_net = given.make_net;
  sim::Scenario scenario;
  if (!given.scenario.empty()) {
    const auto made = directed_world(given.scenario, given.seed);
    if (!made) return kUsage;
    scenario = *made;
    if (given.no_fence) sim::disable_fence(scenario);
    options.scenario = &scenario;
  }
  std::unique_ptr<sim::ChoiceSource> choice = std::make_unique<sim::SeededChoice>(given.seed);
  if (!given.choice_log.empty()) {
    const auto file = tools::read_choice_log(given.choice_log);
    if (!file) {
      complain(file.error());
      return kUsage;
    }
    options.seed = file->seed;
    options.over_tcp = file->over_tcp;
    options.make_net = file->over_adapters ? verbs_mock() : nullptr;
    if (file->scenario) {
      scenario = *file->scenario;
      options.scenario = &scenario;
    }
    choice = std::make_unique<sim::GroupedChoice>(file->choice_log);
  }
  std::unique_ptr<sim::ChoiceSource> seeded;
  if (given.filter != nullptr) {
    options.filter = given.filter;
    seeded = std::move(choice);
    choice = std::make_unique<sim::PartlyZeroChoice>(*seeded, given.filter->calm);
  }
  sim::World world(options, *choice);
  note_faults(world, given.notes);
  tools::Schedule schedule(world);
  if (given.verbose) {
    std::printf("scenario: %s\n", world.describe().c_str());
    choice->observe(&schedule);
  }
  seed = options.seed;
  const sim::WorldResult result = world.run();
  honest = result.honest;
  fill_answer(result, options.seed, given);
  if (const std::string expect = expected_of(given.scenario); !expect.empty()) {
    honest = false;  // the trace of a run that is expected to fail is not judged by the specification
    return report_expected(result, expect, options.seed, ok);
  }
  if (result.trace_errno != 0) return report_unwritten_trace(world, result, options.seed);
  if (!result.failed) {
    ok = line_of(result, options.seed);
    return kOk;
  }
  print_failure(world, result, options.seed);
  return result.stalled ? kNoProgress : kViolated;
}

}  // namespace

int run_and_report(const ReportOptions& given) {
  const tools::TraceScratch scratch;
  ReportOptions options = given;
  if (given.trace.empty()) options.trace = scratch.prefix();
  RunNotes notes;
  if (!given.page.empty()) options.notes = &notes;
  std::string ok;
  std::uint64_t seed = given.seed;
  bool honest = true;
  int code = play_and_report(options, seed, ok, honest);
  if (!given.trace.empty() && given.name_traces && code != kUsage)
    std::printf("traces: %s.{server,client*}.rtrc\n", given.trace.c_str());
  if (!given.trace.empty() && code != kUsage) answer()["traces"] = tools::traces_of(given.trace);
  // If a simulated peer violates the protocol on purpose, `honest` is false and the traces are not judged.
  if (code == kOk && honest) code = judge_and_report(options.trace, seed);
  if (!given.page.empty() && code != kUsage &&
      !write_run_page(options.trace, !given.trace.empty(), notes, given.page))
    return kUsage;
  if (code == kOk) std::fputs(ok.c_str(), stdout);
  return code;
}

namespace {

// Returns the same content as print_catalogue(), as JSON.
nlohmann::ordered_json catalogue() {
  using nlohmann::ordered_json;
  ordered_json all{{"command", "list"}};
  for (unsigned oracle = 0; oracle < sim::kOracles; ++oracle)
    all["oracles"].push_back({{"id", sim::id_of(static_cast<sim::Oracle>(oracle))},
                              {"rule", sim::rule_of(static_cast<sim::Oracle>(oracle))}});
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
    all["faults"].push_back(sim::to_string(static_cast<sim::FaultClass>(fault)));
  for (const char* other : {"operator", "storage_slow", "storage_error"}) all["faults"].push_back(other);
  all["load"] = {"block_device", "keys"};
  for (std::size_t label = 1; label < sim::kLabels; ++label)
    all["labels"].push_back(sim::to_string(static_cast<sim::Label>(label)));
  for (const sim::Directed& one : sim::directed_scenarios())
    all["scenarios"].push_back({{"id", one.id}, {"title", one.title}});
  for (unsigned mark = 0; mark < sim::kMarks; ++mark)
    all["marks"].push_back({{"mark", sim::name_of(static_cast<sim::Mark>(mark))},
                            {"text", sim::text_of(static_cast<sim::Mark>(mark))}});
  return all;
}

}  // namespace

void print_catalogue() {
  answer() = catalogue();
  std::printf("oracles:\n");
  for (unsigned oracle = 0; oracle < sim::kOracles; ++oracle)
    std::printf("  %-4s %s\n", sim::id_of(static_cast<sim::Oracle>(oracle)),
                sim::rule_of(static_cast<sim::Oracle>(oracle)));
  std::printf("faults:\n");
  for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
    std::printf("  %-23s %s\n", sim::to_string(static_cast<sim::FaultClass>(fault)),
                sim::text_of(static_cast<sim::FaultClass>(fault)));
  std::printf("  operator\n  storage_slow\n  storage_error\nload:\n  block_device\n  keys\nlabels:\n");
  for (std::size_t label = 1; label < sim::kLabels; ++label)
    std::printf("  %s\n", sim::to_string(static_cast<sim::Label>(label)));
  std::printf("scenarios:\n");
  for (const sim::Directed& one : sim::directed_scenarios())
    std::printf("  %-6.*s %.*s\n", static_cast<int>(one.id.size()), one.id.data(),
                static_cast<int>(one.title.size()), one.title.data());
  std::printf("marks:\n");
  for (unsigned mark = 0; mark < sim::kMarks; ++mark)
    std::printf("  %s\n", sim::text_of(static_cast<sim::Mark>(mark)));
}

}  // namespace rtrs::sim_tool
