// Totals of the workers of a sweep: as text, as JSON, and as a result file.
#pragma once
#include "tools/urtrs-sim/sweep_result.hpp"
#include "tools/urtrs-sim/sweep_worker.hpp"

namespace rtrs::sim_tool {

// Prints the totals, and fills answer() with them. `seconds`: duration of the sweep.
void print_summary(const Shared& shared, const SweepOptions& options, double seconds);

// Adds the totals to `result`: all fields except version, options, range and failures.
void add_totals(const Shared& shared, const SweepOptions& options, SweepResult& result);

}  // namespace rtrs::sim_tool
