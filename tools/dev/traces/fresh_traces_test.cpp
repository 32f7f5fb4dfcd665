// Records simulated runs to files, as a user does, and replays every file. The replay must not differ; it
// compares the state after every input. `urtrs-sim sweep --replay-check` does the same for any number of
// runs.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "sim/world/world.hpp"
#include "tools/dev/traces/replayed.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::trace_corpus::fresh_traces_test {
namespace {

TEST(FreshTraces, AllReplay) {
  const tools::ScratchFolder scratch;
  constexpr std::uint64_t kFirst = 1'000'000;
  constexpr std::uint64_t kRuns = 250;
  std::uint64_t files = 0;
  std::uint64_t notes = 0;
  std::uint64_t hashes = 0;
  std::uint64_t records = 0;
  std::chrono::duration<double> took{0};
  for (std::uint64_t seed = kFirst; seed < kFirst + kRuns; ++seed) {
    sim::WorldOptions options;
    options.seed = seed;
    options.trace = scratch / "t";
    ASSERT_FALSE(sim::run_seed(options).failed) << "seed " << seed;
    for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
      const auto began = std::chrono::steady_clock::now();
      const trace::ReplayResult result = replayed(entry.path());
      took += std::chrono::steady_clock::now() - began;
      ASSERT_EQ(result.verdict, trace::Verdict::identical) << "seed " << seed << ' ' << story_of(result);
      notes += result.notes;
      hashes += result.state_hashes;
      records += result.records;
      ++files;
      std::filesystem::remove(entry.path());
    }
  }
  std::printf("%llu records of %llu traces, %llu states compared: %.2f M records/s\n",
              static_cast<unsigned long long>(records), static_cast<unsigned long long>(files),
              static_cast<unsigned long long>(hashes), static_cast<double>(records) / took.count() / 1e6);
  EXPECT_GE(files, 2 * kRuns);
  EXPECT_GT(notes, 50 * kRuns);
  EXPECT_GT(hashes, 50 * kRuns);
}

}  // namespace
}  // namespace rtrs::trace_corpus::fresh_traces_test
