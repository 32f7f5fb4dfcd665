// Tapes as files: JSON, written and read by this project only, but meant to be looked at and edited too.
//   {"urtrs_tape": 1, "seed": 4711, "oracle": "O9", "seen": "...",
//    "tape": ["( swarm", "( option", "swarm 4 1", ")", ")", "- fault_span", "latency 5001 17 x3", ...]}
// A line is a draw (label, range, value, how often in a row), the begin "(" or end ")" of a span, or a span
// that is left out "-". What is not there is calm.
// A directed world has its "scenario" there too, whose "script" has one line of sim/cluster/script.hpp a
// step.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "sim/choices/choice.hpp"
#include "sim/cluster/scenario.hpp"

namespace rtrs::tools {

struct TapeFile {
  static constexpr int kVersion = 1;
  std::uint64_t seed = 0;    // of the world: it is in the data and the names of a run
  std::string oracle, seen;  // what failed
  sim::Tape tape;
  std::optional<sim::Scenario> scenario;  // of a directed world; else the tape draws it
};
std::string to_json(const TapeFile&);
// The error says what is wrong and where.
tl::expected<TapeFile, std::string> parse_tape(const std::string& json);
// 0 or a positive errno.
int write_tape(const std::string& path, const TapeFile&);
tl::expected<TapeFile, std::string> read_tape(const std::string& path);

}  // namespace rtrs::tools
