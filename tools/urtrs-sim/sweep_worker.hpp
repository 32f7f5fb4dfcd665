// Worker process of a sweep, and the memory that the workers share with their parent.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "sim/world/world.hpp"
#include "tools/urtrs-sim/sweep.hpp"

namespace rtrs::sim_tool {

using Counter = std::atomic<std::uint64_t>;
inline constexpr std::uint64_t kNoSeed = ~std::uint64_t{0};
inline constexpr unsigned kMaxJobs = 256;

// A seed that is a multiple of this also plays a world of block devices, which costs half as much as its own.
inline constexpr std::uint64_t kBlockWorldEvery = 8;

// An additional world that a sweep runs for a seed.
enum class ExtraWorld : std::uint8_t { nothing, blocks, streams };

struct Worker {
  Counter current{kNoSeed};  // current seed
  Counter done_below{0};     // the worker has done its seeds below this one, and gets no more of them
  Counter failed{kNoSeed};
  Counter nondeterministic{kNoSeed};
  Counter blocks_failed{kNoSeed};
  Counter streams_failed{kNoSeed};
  std::atomic<ExtraWorld> at{ExtraWorld::nothing};  // additional world that is running
  Counter differs{kNoSeed};                         // seed whose traces differ when replayed
  Counter seeds{0}, events{0}, requests{0}, virtual_ms{0}, rerun{0}, hash{0};
  Counter block_worlds{0}, block_ios{0};
  Counter histories{0}, not_judgeable{0};                        // written histories; worlds without one
  Counter traces{0}, records{0}, state_hashes{0}, replay_ns{0};  // totals of replayed traces
  Counter faults[sim::kFaultClasses]{};
  Counter marks[sim::kMarks]{};
  Counter pairs[sim::kPathStates][sim::kPathStates]{};
  // First seed of this worker that reached each mark and each pair. A worker plays its seeds in ascending
  // order.
  Counter first_marks[sim::kMarks]{};
  Counter first_pairs[sim::kPathStates][sim::kPathStates]{};
};
// Memory that is shared by the parent and its workers.
struct Shared {
  Counter next{0};  // next seed, relative to the first one
  std::atomic<bool> stop{false};
  std::atomic<int> history_errno{0};  // why a history could not be written; ends the sweep
  Worker workers[kMaxJobs];
};

// A new Shared, which child processes share. get() returns nullptr if there is no memory.
class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* get() const noexcept { return shared_; }

 private:
  Shared* shared_;
};

// Returns the counter for the failed seed of the world that the worker currently runs.
Counter& failed_of(Worker& worker);

// Id of the additional world, such as "BD24"; empty: the seed's own world.
std::string world_of(ExtraWorld which);

// Runs seeds until no seed is left, one fails, or the parent sets `stop`. With SweepOptions::failures, sends
// each failure and continues with the next seed.
void work(Shared& shared, Worker& worker, const SweepOptions& options);

}  // namespace rtrs::sim_tool
