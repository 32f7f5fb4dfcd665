#include "tools/urtrs-sim/explore.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>
#include <vector>

#include "backends/options/quantity.hpp"
#include "sim/explore/configurations.hpp"
#include "sim/explore/counter_example.hpp"
#include "sim/explore/search.hpp"
#include "tools/lib/files/read_bounded.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"

namespace rtrs::sim_tool {

namespace {

using explore::Configuration;
using explore::Finding;
using explore::SearchResult;

// Name of a rule. This rule and kLostUpdate both find an older write that has overwritten a newer one.
// kLostUpdate applies if the newer write had already been acknowledged, this rule if it is acknowledged
// afterwards.
constexpr const char* kUndone = "an acknowledged write is on the disk";

struct Row {
  const Configuration* configuration = nullptr;
  bool fence = true;
  SearchResult result;
};

const char* fence_word(const Row& row) {
  return row.fence && has(row.configuration->machines.server.extensions, wire::Extensions::fence) ? "on"
                                                                                                  : "off";
}

const Finding* lost_update(const SearchResult& result) {
  const Finding* late = result.finding(sim::kLostUpdate);
  const Finding* undone = result.finding(kUndone);
  if (late == nullptr || undone == nullptr) return late == nullptr ? undone : late;
  return undone->way.size() < late->way.size() ? undone : late;
}

bool is_failover_rule(const std::string& rule) {
  return rule == sim::kLostUpdate || rule == sim::kChunkRace || rule == kUndone;
}

// Returns null if the search has the expected result, otherwise an error message. A search that a signal
// stopped need not have found anything.
const char* complaint(const Row& row) {
  const SearchResult& result = row.result;
  const bool whole = stopped_by == 0;
  const Configuration& configuration = *row.configuration;
  if (!configuration.violated_rule.empty())
    return !whole || result.finding(configuration.violated_rule.c_str())
               ? nullptr
               : "the planted mistake was not found";
  if (!row.fence && configuration.failover) {
    if (whole && (result.finding(sim::kChunkRace) == nullptr || result.finding(sim::kLostUpdate) == nullptr))
      return "without the fence both races must be found";
    const bool more = std::any_of(result.findings.begin(), result.findings.end(),
                                  [](const Finding& finding) { return !is_failover_rule(finding.rule); });
    return more ? "more is broken than the missing fence explains" : nullptr;
  }
  return result.findings.empty() ? nullptr : "a rule is broken";
}

// Returns the name that docs/exhaustive.md uses for a breach of the rule; empty: the name of the rule is
// used.
std::string breach_name(const std::string& rule) {
  if (rule == sim::kChunkRace) return "chunk race";
  if (rule == sim::kLostUpdate || rule == kUndone) return "lost update";
  return rule == explore::kStuck ? "stuck" : "";
}

std::string broken_rule(const std::string& rule) {
  const std::string name = breach_name(rule);
  return (name.empty() ? "" : name + ", ") + "broken rule: \"" + rule + "\"";
}

std::string cell(const Finding* finding) {
  return finding == nullptr ? std::string("-") : std::to_string(finding->way.size()) + " steps";
}

std::string other_rules(const SearchResult& result) {
  std::string text;
  for (const Finding& finding : result.findings) {
    if (is_failover_rule(finding.rule) || finding.rule == explore::kStuck) continue;
    text += (text.empty() ? "" : "; ") + finding.rule + ": " + cell(&finding);
  }
  return text.empty() ? "-" : text;
}

void print_markdown(const std::vector<Row>& rows) {
  std::printf(
      "| world | what may happen | fence | states | transitions | depth | chunk race | lost update | stuck "
      "| other rules |\n|---|---|---|---|---|---|---|---|---|---|\n");
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  for (const Row& row : rows) {
    const SearchResult& result = row.result;
    std::printf("| %s | %s | %s | %s | %s | %u | %s | %s | %s | %s |\n", row.configuration->name.c_str(),
                row.configuration->text.c_str(), fence_word(row), tools::with_commas(result.states).c_str(),
                tools::with_commas(result.transitions).c_str(), result.depth,
                cell(result.finding(sim::kChunkRace)).c_str(), cell(lost_update(result)).c_str(),
                cell(result.finding(explore::kStuck)).c_str(), other_rules(result).c_str());
    states += result.states;
    transitions += result.transitions;
  }
  std::printf("| all | | | %s | %s | | | | | |\n", tools::with_commas(states).c_str(),
              tools::with_commas(transitions).c_str());
}

void print_row(const Row& row, const char* wrong) {
  const SearchResult& result = row.result;
  std::printf("%-14s fence %-3s %10s states %11s transitions  depth %3u  %6.1f s %5zu MB  %s\n",
              row.configuration->name.c_str(), fence_word(row), tools::with_commas(result.states).c_str(),
              tools::with_commas(result.transitions).c_str(), result.depth, result.seconds,
              result.bytes >> 20,
              !result.exhausted() ? result.stopped_by.c_str()
              : wrong == nullptr  ? "as expected"
                                  : wrong);
  for (const Finding& finding : result.findings)
    std::printf("    %s, in %s states, first after %zu steps\n", broken_rule(finding.rule).c_str(),
                tools::with_commas(finding.states).c_str(), finding.way.size());
  std::fflush(stdout);
}

nlohmann::ordered_json as_json(const Row& row, const char* wrong) {
  const SearchResult& result = row.result;
  auto findings = nlohmann::ordered_json::array();
  for (const Finding& finding : result.findings)
    findings.push_back({{"rule", finding.rule}, {"states", finding.states}, {"steps", finding.way.size()}});
  return {{"world", row.configuration->name},
          {"fence", row.fence},
          {"states", result.states},
          {"transitions", result.transitions},
          {"depth", result.depth},
          {"seconds", result.seconds},
          {"bytes", result.bytes},
          {"exhausted", result.exhausted()},
          {"as_it_must_be", wrong == nullptr},
          {"findings", std::move(findings)}};
}

Row explore_one(const Configuration& one, bool fence, const ExploreCommand& command) {
  explore::SearchOptions options;
  options.threads = command.threads;
  options.most_bytes = command.most_bytes;
  options.stopped = [] { return stopped_by != 0; };
  const std::uint64_t about = one.fence_off ? one.states / 2 : one.states;
  tools::ProgressLine line;
  options.progress = [&](const explore::Progress& now) {
    line.show(one.name + " fence " + (fence ? "on" : "off") + ": " +
              (now.states <= about ? tools::progress_text(now.states, about, "states", now.seconds)
                                   : tools::with_commas(now.states) + " states, more than expected") +
              ", " + std::to_string(now.bytes >> 20) + " MiB, depth " + std::to_string(now.depth));
  };
  return {&one, fence, explore::search(explore::root_of(one, fence), options)};
}

bool write_example(const Row& row, const Finding& finding, const std::string& path) {
  std::ofstream file(path);
  file << explore::to_json({row.configuration->name, row.fence, finding.rule, finding.way});
  file.close();
  if (!file)
    complain("cannot write " + path + ": " + std::strerror(errno) + " (errno " + std::to_string(errno) + ")");
  return static_cast<bool>(file);
}

int replay_file(const std::string& path) {
  constexpr std::size_t kMost = 1;  // MiB
  const auto text = tools::read_bounded(path, kMost);
  if (!text) {
    complain("cannot read " + path + ": " + text.error());
    return kUsage;
  }
  const explore::ReadExample read = explore::from_json(*text);
  if (!read.example) {
    complain(path + " is not a counter-example: " + read.error);
    return kUsage;
  }
  const explore::Replayed played = explore::replay(*read.example);
  answer() = {{"command", "explore"}, {"possible", played.possible}, {"broken", played.broken}};
  std::fputs(played.diagram.c_str(), stdout);
  if (!played.possible) {
    std::printf("The next step is not possible any more: the machines changed since this was written.\n");
    return kNondeterministic;
  }
  if (played.broken.empty()) std::printf("      no rule is broken any more\n");
  if (played.broken == explore::kStuck) std::printf("      broken rule: %s\n", explore::kStuck);
  return played.broken.empty() ? kOk : kViolated;
}

// Prints diagrams only if a single configuration was searched. The diagrams of all configurations would be
// hundreds of lines.
void show_sequences(const Row& row) {
  for (const Finding& finding : row.result.findings) {
    std::printf("\n%s: a shortest way, fence %s\n%s", broken_rule(finding.rule).c_str(),
                row.fence ? "on" : "off",
                explore::diagram(explore::root_of(*row.configuration, row.fence), finding.way).c_str());
  }
}

bool wanted(const Configuration& one, bool fence, const ExploreCommand& command) {
  if (command.configuration != "all" && command.configuration != one.name) return false;
  if (!fence && !one.fence_off) return false;
  return command.fence == "both" || (command.fence == "on") == fence;
}

std::size_t memory_of(const std::string& text) {
  const auto size = options::parse_size(text, 1U << 20);
  if (!size) throw CLI::ValidationError("--memory", size.error());
  if (*size < 64U << 20 || *size > std::uint64_t{1} << 40)
    throw CLI::ValidationError("--memory", "expected 64M to 1T, got " + text);
  return *size;
}

}  // namespace

CLI::App* explore_options(CLI::App& app, ExploreCommand& command) {
  CLI::App* all =
      app.add_subcommand("explore", "play every order of events in small systems of the real machines");
  all->add_option("--config", command.configuration,
                  "one world by name, with the sequence diagrams of what it breaks")
      ->capture_default_str();
  all->add_option("--fence", command.fence, "on, off or both")
      ->capture_default_str()
      ->check(CLI::IsMember({"on", "off", "both"}));
  command.threads = std::max(1U, std::thread::hardware_concurrency());
  all->add_option("--threads", command.threads, "threads of one search")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  all->add_option_function<std::string>(
         "--memory", [&command](const std::string& text) { command.most_bytes = memory_of(text); },
         "memory of one search, e.g. 512M, a plain number is in MiB; the search reports when it is full")
      ->default_str("2G");
  all->add_flag("--markdown", command.markdown, "print the results as a Markdown table");
  CLI::Option* drop =
      all->add_flag("--drop-late", command.drop_late,
                    "a network that loses in-flight data of a client whose end is closed (no real one does)");
  all->add_option("--out", command.out, "write the first counter-example to this file")->excludes(drop);
  all->add_option("--replay", command.replay, "play a counter-example again and judge it");
  all->add_flag_callback(
      "--json", [] {}, "one object instead of the text");
  return all;
}

int explore(const ExploreCommand& command) {
  if (!command.replay.empty()) return replay_file(command.replay);
  if (command.configuration != "all" && explore::configuration(command.configuration) == nullptr) {
    std::vector<std::string> names{"all"};
    for (const Configuration& one : explore::configurations()) names.push_back(one.name);
    const std::string near = tools::nearest_word(command.configuration, names);
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    complain("unknown world '" + command.configuration + "'; " +
             (near.empty() ? "expected one of " + all : "did you mean '" + near + "'?"));
    return kUsage;
  }
  std::vector<Configuration> worlds = explore::configurations();
  for (Configuration& one : worlds) one.machines.drop_late = command.drop_late;
  const StopSignals signals;
  std::vector<Row> rows;
  answer() = {{"command", "explore"}, {"searches", nlohmann::ordered_json::array()}};
  int code = kOk;
  bool written = command.out.empty();
  for (const Configuration& one : worlds) {
    for (const bool fence : {true, false}) {
      if (!wanted(one, fence, command) || stopped_by != 0) continue;
      Row row = explore_one(one, fence, command);
      const char* wrong = complaint(row);
      if (wrong != nullptr) code = kViolated;
      if (!row.result.exhausted() && code == kOk) code = kNoProgress;
      if (!command.markdown) print_row(row, wrong);
      if (!command.markdown && command.configuration != "all") show_sequences(row);
      if (!written && !row.result.findings.empty()) {
        if (!write_example(row, row.result.findings.front(), command.out)) return kUsage;
        written = true;
      }
      answer()["searches"].push_back(as_json(row, wrong));
      rows.push_back(std::move(row));
    }
  }
  if (command.markdown) print_markdown(rows);
  if (!command.markdown && rows.size() > 1) {
    std::uint64_t states = 0;
    double seconds = 0;
    for (const Row& row : rows) states += row.result.states;
    for (const Row& row : rows) seconds += row.result.seconds;
    const double processor = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    std::printf("%s states of %zu searches in %.1f s, %.1f s of processor time\n",
                tools::with_commas(states).c_str(), rows.size(), seconds, processor);
  }
  if (stopped_by == 0) return code;
  const int stopped = report_stopped("in search " + std::to_string(rows.size()));
  return code == kViolated ? code : stopped;
}

}  // namespace rtrs::sim_tool
