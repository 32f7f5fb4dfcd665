// Reads and writes choice log files. The format is JSON, so that a person can read and edit a file.
//   {"urtrs_choices": 1, "seed": 4711, "oracle": "O9", "seen": "...",
//    "choices": ["( swarm", "( option", "swarm 4 1", ")", ")", "- fault_span", "latency 5001 17 x3", ...]}
// A line is a draw (label, range, value, number of repetitions), the begin "(" or end ")" of a group, or "-"
// for a group that is left out. A missing draw has the value 0, which means no fault and the shortest delay.
// The file of a directed world also has a "scenario", whose "script" has one line per step
// (sim/world/script.hpp).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "sim/choices/choice.hpp"
#include "sim/world/scenario.hpp"

namespace rtrs::tools {

struct ChoiceLogFile {
  static constexpr int kVersion = 1;
  std::uint64_t seed = 0;    // seed of the world; the data and names of a run derive from it
  std::string oracle, seen;  // id of the violated oracle, and its description of the violation
  sim::ChoiceLog choice_log;
  std::optional<sim::Scenario> scenario;  // directed world only; otherwise drawn from the choice log
  bool over_tcp = false;                  // "fabric": "tcp", see sim::Scenario
  bool over_adapters = false;             // "fabric": "verbs-mock"
};
std::string to_json(const ChoiceLogFile&);
// Fails with a message that names the problem and its position.
tl::expected<ChoiceLogFile, std::string> parse_choice_log(const std::string& json);
// Returns 0 or a positive errno.
int write_choice_log(const std::string& path, const ChoiceLogFile&);
tl::expected<ChoiceLogFile, std::string> read_choice_log(const std::string& path);

}  // namespace rtrs::tools
