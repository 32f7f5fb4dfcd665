// Many seeds at once, in processes of their own: a seed that crashes its process is a finding like any other.
#pragma once
#include <cstdint>
#include <string>

#include "tools/urtrs-sim/seed_range.hpp"

namespace rtrs::tools {

struct SweepOptions {
  SeedRange seeds;
  unsigned jobs = 1;
  double time_limit = 0;             // seconds; 0: none
  unsigned determinism_percent = 1;  // of the seeds run twice
  bool quiet = false;                // only the verdict
  bool hash_only = false;            // print one hash over all seeds instead of the summary
};
// The exit code.
int sweep(const SweepOptions&);

}  // namespace rtrs::tools
