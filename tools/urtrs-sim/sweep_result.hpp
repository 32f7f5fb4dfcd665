// Result of a range of seeds as a file. Results of parts of a range add up to the result of the whole range,
// byte for byte, so that the parts can run on several machines in any order. The file has no times and no
// names of hosts; these are in the file with kTimesEnding beside it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "tools/urtrs-sim/failure_groups.hpp"
#include "tools/urtrs-sim/seed_range.hpp"

namespace rtrs::sim_tool {

inline constexpr const char* kTimesEnding = ".times";

// A mark, or a pair of states of the two ends of a path.
struct Reached {
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::string name;
  std::uint64_t seeds = 0;       // number of seeds that reached it
  std::uint64_t first = kNever;  // the lowest of these seeds
};

struct SweepResult {
  using Counts = std::vector<std::pair<std::string, std::uint64_t>>;

  std::string version;            // of urtrs-sim, with the commit
  std::string command = "sweep";  // of urtrs-sim that made it: sweep or scenarios
  std::string worlds;             // fabric and faults: " --fabric tcp --without crash"
  std::string checks;             // other options: " --check-determinism 5"
  SeedRange seeds;
  std::uint64_t hash = 0;  // the number that `urtrs-sim hash` prints
  Counts counts, faults;   // totals by name
  std::vector<Reached> marks, pairs;
  FailureGroups failures;

  std::uint64_t count(const std::string& name) const;  // 0 if there is no such count
};

std::string to_text(const SweepResult& result);
// Reads the output of to_text(). The error does not contain the name of a file.
tl::expected<SweepResult, std::string> parse_result(const std::string& text);
tl::expected<SweepResult, std::string> read_result(const std::string& file);
// Adds a result with the same version, options and names. Returns false if the names differ, or if a number
// became too large. Does not change the range of seeds.
bool add_result(SweepResult& sum, const SweepResult& more);

// Time that a result took.
struct SweepTimes {
  std::uint64_t seeds = 0;
  double process_s = 0;  // seconds, times the number of processes
  double rate() const { return process_s > 0 ? static_cast<double>(seeds) / process_s : 0; }
};

std::string to_text(const SweepTimes& times);
// Reads the times beside the result `file`. A missing file yields no seeds; another problem yields an error
// with the name of the file.
tl::expected<SweepTimes, std::string> read_times(const std::string& file);

}  // namespace rtrs::sim_tool
