// The ledger: failing seeds with the version that showed them and the one that fixed them, and the results of
// sweeps by version. A file of JSON lines, in which a line is a case or a sweep:
//   {"seed": 17, "worlds": "", "world": "BD24", "rule": "O19", "place": "...", "shown": "...", "fixed": ""}
//   {"version": "...", "seeds": "0..1000", "worlds": "", "checks": "...", "rate": 80.5, "marks": 110, ...}
// "choices" in place of "seed" names a choice log, relative to the folder of the ledger.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/urtrs-sim/sweep_result.hpp"

namespace rtrs::sim_tool {

struct LedgerCase {
  std::uint64_t seed = 0;
  std::string choices;  // choice log to run; empty: run the seed
  std::string worlds;   // fabric and faults: " --fabric tcp"
  std::string world;    // id of the directed scenario; empty: the world of the seed
  std::string rule, place;
  std::string shown, fixed;  // versions; `fixed` is empty while the case is open
};

// The result of a sweep, without the details.
struct LedgerSweep {
  std::string version, seeds, worlds, checks;
  double rate = 0;  // seeds per second of one process; 0: unknown
  std::uint64_t marks = 0, all_marks = 0, pairs = 0, all_pairs = 0, failures = 0;
};

struct Ledger {
  std::vector<LedgerCase> cases;
  std::vector<LedgerSweep> sweeps;  // in the order in which they were added

  // Adds the result of a sweep, which replaces one of the same version, range and options, and a case for
  // each group of failures that no case has which is open or was fixed after the version of the result
  // (`is_later_fixed`). Returns the number of new cases.
  std::size_t add(const SweepResult& result, const SweepTimes& times,
                  const std::function<bool(const LedgerCase&)>& is_later_fixed);
};

inline constexpr std::size_t kMostLedgerMiB = 16;

// Errors contain the name of the file and the number of the line.
tl::expected<Ledger, std::string> read_ledger(const std::string& file);
std::string to_text(const Ledger& ledger);

// Returns the command that runs the case. A choice log has the path that the ledger gives.
std::string command_of(const LedgerCase& one);

// Returns the ledger as a page that needs no other file.
std::string ledger_page(const Ledger& ledger);

}  // namespace rtrs::sim_tool
