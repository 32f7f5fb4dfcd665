// Result of `urtrs-sim blame`, and the HTML page that shows it beside the sequence diagram of the run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/choices/failure_curve.hpp"
#include "tools/urtrs-sim/one_run.hpp"

namespace rtrs::sim_tool {

struct BlamePoint {
  sim::FailurePoint rate;
  std::uint64_t failed_later =
      0;             // redraws that failed in the same way, but later than the run; see BlameResult::by_time
  Nanos time = 0;    // virtual time
  std::string said;  // last entry of the journal before this point
  bool coarse = false;  // one of the points of the first round
};

struct BlameResult {
  std::vector<BlamePoint> points;  // in ascending order of draws; the last one is the end of the run
  // A redraw counts only if it fails until about the time at which the run failed. Otherwise a bug that every
  // longer run hits would look inevitable long before it struck in this run.
  bool by_time = false;
  std::optional<sim::FailureStep> step;  // nullopt: the failure was as likely at the beginning
  std::uint64_t draws = 0, events = 0;   // of the failing run
  std::uint64_t runs = 0;                // number of rests that were drawn
  std::uint64_t redrawn_events = 0;
  std::uint64_t failed_otherwise = 0;  // rests that failed with another signature
};

// Names the step in a sentence; empty if there is none.
std::string step_text(const BlameResult& result);

// Plays the run with traces and writes the page. Returns an error text; empty: written.
std::string write_blame_page(const std::string& file, tools::IsolatedRunner& runner, const OneRun& run,
                             const tools::IsolatedResult& failure, const BlameResult& result);

}  // namespace rtrs::sim_tool
