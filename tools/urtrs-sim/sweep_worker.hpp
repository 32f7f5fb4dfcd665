// A process that plays seeds of a sweep, and the memory that it shares with its parent.
#pragma once
#include <atomic>
#include <cstdint>

#include "sim/world/world.hpp"
#include "tools/urtrs-sim/sweep.hpp"

namespace rtrs::tools {

using Counter = std::atomic<std::uint64_t>;
inline constexpr std::uint64_t kNoSeed = ~std::uint64_t{0};
inline constexpr unsigned kMaxJobs = 256;

// What a seed plays besides its own world.
enum class Besides : std::uint8_t { nothing, blocks, streams };

struct Worker {
  Counter current{kNoSeed};  // the seed it is at
  Counter done_below{0};     // all that it had below, and it gets no more of those
  Counter failed{kNoSeed};
  Counter nondeterministic{kNoSeed};
  Counter blocks_failed{kNoSeed};
  Counter streams_failed{kNoSeed};
  std::atomic<Besides> at{Besides::nothing};  // that it plays besides the world of its seed
  Counter differs{kNoSeed};                   // its traces are not the same when they are replayed
  Counter seeds{0}, events{0}, requests{0}, virtual_ms{0}, rerun{0}, hash{0};
  Counter block_ios{0};
  Counter traces{0}, records{0}, state_hashes{0}, replay_ns{0};  // that were replayed
  Counter faults[sim::kFaultClasses]{};
  Counter marks[sim::kMarks]{};
  Counter pairs[sim::kPathStates][sim::kPathStates]{};
};
// Between the parent and its workers.
struct Shared {
  Counter next{0};  // from the first seed on
  std::atomic<bool> stop{false};
  Worker workers[kMaxJobs];
};

// Of the world that the worker is at.
Counter& failed_of(Worker& worker);

// Plays seeds until there are no more, one fails, or the parent wants it to stop.
void work(Shared& shared, Worker& worker, const SweepOptions& options);

}  // namespace rtrs::tools
