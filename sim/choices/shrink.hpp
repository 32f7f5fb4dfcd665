// Shrinks the choice log of a failing run: leaves out faults, requests and operations, makes options and
// delays calm, and lowers the remaining values. A candidate is accepted if its run still fails in the same
// way, which the caller decides.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/choices/choice.hpp"

namespace rtrs::sim {

// Plays the candidate. If it fails in the same way, returns the choice log as actually drawn, up to the
// failure.
using LogTrial = std::function<std::optional<ChoiceLog>(const ChoiceLog&)>;

struct ShrinkOptions {
  std::uint64_t max_runs = 20'000;
  std::function<bool()> out_of_time;             // may be empty: no time limit
  std::function<void(const ChoiceLog&)> better;  // called with each smaller choice log; may be empty
};

// Contents of a choice log by kind.
struct LogSize {
  std::size_t faults = 0;      // timed faults, and faults by probability that occurred
  std::size_t requests = 0;    // requests of applications
  std::size_t operations = 0;  // operations of operators, and steps of a directed scenario
  std::size_t options = 0;     // options that are not calm
  std::size_t others = 0;      // delays and orders that are not calm
  // Number of entries that a reader of the log has to look at.
  std::size_t groups() const noexcept { return faults + requests + operations + options + others; }
  bool operator==(const LogSize&) const = default;
};
LogSize size_of(const ChoiceLog&);
std::string to_text(const LogSize&);
// True for a draw by probability that hit (see ChoiceSource::fires) and is a fault, not a detail of load or
// storage.
bool is_fault(const Draw&) noexcept;

struct ShrinkResult {
  ChoiceLog choice_log;
  LogSize before, after;
  std::uint64_t runs = 0;
  bool complete = false;  // false: time or number of runs was exhausted before the search ended
};
ShrinkResult shrink(const ChoiceLog& failing, const LogTrial&, const ShrinkOptions& = {});

}  // namespace rtrs::sim
