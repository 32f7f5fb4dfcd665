// Options and result of a run.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/record/recorder.hpp"
#include "sim/faults/faults.hpp"
#include "sim/oracles/judge.hpp"
#include "sim/world/fault_filter.hpp"
#include "sim/world/scenario.hpp"

namespace rtrs::sim {

inline constexpr unsigned kPathStates = static_cast<unsigned>(PathState::closed) + 1;

// Provides a receiver for the trace records of each node while the world runs.
class NodeListeners {
 public:
  virtual ~NodeListeners() = default;
  // Called once per node; 0 is the server. The listener must outlive the world.
  virtual trace::Listener& of(NodeId node) = 0;
};

struct WorldOptions {
  std::uint64_t seed = 0;
  std::string trace;                   // trace file prefix; one file per node; empty: no traces
  NodeListeners* listeners = nullptr;  // borrowed; nullptr: none. Not used if there are trace files
  bool verbose = false;                // print the journal as it grows
  std::uint64_t max_events = 5'000'000;
  const Scenario* scenario = nullptr;  // borrowed; nullptr: drawn
  bool over_tcp = false;               // see Scenario; true also overrides a given scenario
  MakeNet make_net = nullptr;  // creates the network for Scenario::over_adapters; nullptr: not over adapters
  // Faults to leave out. Borrowed; nullptr: none. World applies the classes and options of the filter;
  // run_seed() applies its labels.
  const FaultFilter* filter = nullptr;
  std::string* history = nullptr;  // borrowed; receives the lines of a HistoryLog; nullptr: none
  // Oracles whose violations are ignored, so that the run continues and its history shows the consequences.
  std::vector<Oracle> excused;
};

struct WorldResult {
  bool failed = false;
  Failure failure;
  // All nodes followed the protocol, so that traces may be judged. False if a fabric falsified messages, or
  // if a client restarted with its old uuids.
  bool honest = true;
  // The rules of a HistoryLog apply to the run: it is honest and has the fence, or a kernel server and a
  // client that waits.
  bool judgeable = true;
  bool stalled = false;       // the run failed for lack of progress
  bool exhausted = false;     // stalled only because it reached max_events
  bool script_stuck = false;  // stalled only because the script could not be played
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  Nanos virtual_time = 0;
  std::uint64_t requests = 0;
  std::array<std::uint64_t, kFaultClasses> faults{};
  std::array<bool, kMarks> marks{};
  // Pairs of states that the two ends of a path had at the same time: [client][server], each a PathState.
  std::array<std::array<bool, kPathStates>, kPathStates> pairs{};
  // First trace file that could not be written completely, and its errno; 0: none.
  std::string trace_file;
  int trace_errno = 0;
};

// Draws the scenario, or takes it from the options, and creates its network.
std::unique_ptr<Net> make_network(Scenario&, const WorldOptions&, ChoiceSource&);

// Runs one seed, without the faults that the filter leaves out.
WorldResult run_seed(const WorldOptions&);

}  // namespace rtrs::sim
