// Makes the choice log of a failing run small: leaves out faults, requests and operations, makes options and
// delays calm, lowers what remains. A candidate counts when the run it gives still fails in the same way;
// what that means is the caller's business.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/choices/choice.hpp"

namespace rtrs::sim {

// Plays the candidate. When it fails in the same way: the choice log as it was really drawn, up to the
// failure.
using LogTrial = std::function<std::optional<ChoiceLog>(const ChoiceLog&)>;

struct ShrinkOptions {
  std::uint64_t max_runs = 20'000;
  std::function<bool()> out_of_time;             // empty: never
  std::function<void(const ChoiceLog&)> better;  // told of every smaller choice log; may be empty
};

// What a choice log still holds.
struct LogSize {
  std::size_t faults = 0;      // timed ones, and chances that fired
  std::size_t requests = 0;    // of applications
  std::size_t operations = 0;  // of operators, and steps of a directed scenario
  std::size_t options = 0;     // that are not calm
  std::size_t others = 0;      // delays and orders that are not calm
  // What a reader has to look at.
  std::size_t groups() const noexcept { return faults + requests + operations + options + others; }
  bool operator==(const LogSize&) const = default;
};
LogSize size_of(const ChoiceLog&);
std::string to_text(const LogSize&);
// A chance that fired (see ChoiceSource::fires) and is a fault, rather than a detail of the load or storage.
bool is_fault(const Draw&) noexcept;

struct ShrinkResult {
  ChoiceLog choice_log;
  LogSize before, after;
  std::uint64_t runs = 0;
  bool complete = false;  // nothing more to take away; else time or runs were over
};
ShrinkResult shrink(const ChoiceLog& failing, const LogTrial&, const ShrinkOptions& = {});

}  // namespace rtrs::sim
